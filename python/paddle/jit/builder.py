"""Builder: the state while a Program is built from a function of dygraph mode.

An eager Tensor that the function reads becomes a Variable of the Program and an input of the call. A Tensor that is a
member of a Layer is read again from the Layer at each call, so that a replaced parameter takes effect.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode, unique_name
from paddle._programs import building, guards
from paddle._programs.parameter import ParamBase
from paddle._programs.program import Program
from paddle._programs.variable import Parameter, Variable, isinstance_of

__all__: list[str] = []

#: One Program is built at a time: the mode and the default Programs belong to the process.
LOCK = threading.RLock()


class Builder:
    """Maps eager Tensors and members of Layers to Variables of one Program.

    Attributes:
        tensors (list): the captured Tensors, in the order of their first use.
        sources (list): for each Tensor the table of its Layer and the name in it, or None.
        names (list): their Variables' names.
        assigned (dict): (id of a Layer, attribute) to (Layer, attribute, Variable) for members that the function sets.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tensors: list[Any] = []
        self.sources: list[Any] = []
        self.names: list[str] = []
        self.assigned: dict[tuple[int, str], tuple] = {}
        self._vars: dict[int, Variable] = {}

    def variable(self, tensor: Any, source: tuple[dict, str] | None = None) -> Variable:
        """The Variable that stands for an eager Tensor."""
        var = self._vars.get(id(tensor))
        if var is not None:
            return var
        block = self.program.global_block()
        name = tensor.name
        if block.has_var(name):
            name = unique_name.generate(name)
        if isinstance(tensor, ParamBase):
            var = Parameter(
                block,
                tensor.shape,
                tensor.dtype,
                name=name,
                trainable=not tensor.stop_gradient,
                stop_gradient=tensor.stop_gradient,
                optimize_attr=tensor.optimize_attr,
                regularizer=tensor.regularizer,
                do_model_average=tensor.do_model_average,
                need_clip=tensor.need_clip,
            )
        else:
            var = block.create_var(
                name=name,
                shape=tensor.shape,
                dtype=tensor.dtype,
                persistable=True,
                stop_gradient=tensor.stop_gradient,
            )
        self._vars[id(tensor)] = var
        self.tensors.append(tensor)
        self.sources.append(source)
        self.names.append(name)
        return var

    def member(self, layer: Any, table: dict, name: str) -> Any:
        """The value of a Layer's attribute `name`, which `table` holds."""
        found = self.assigned.get((id(layer), name))
        if found is not None:
            return found[2]
        value = table[name]
        if isinstance(value, _core.Tensor):
            return self.variable(value, (table, name))
        return value

    def assign_member(self, layer: Any, name: str, value: Variable) -> None:
        """Set a Layer's attribute: in the Program now, in the Layer after each call."""
        self.assigned[id(layer), name] = (layer, name, value)

    def variables(self, values: Any) -> Any:
        """`values` (an operator's inputs by slot) with Variables in place of eager Tensors."""
        if isinstance(values, _core.Tensor):
            return self.variable(values)
        if isinstance(values, dict):
            return {key: self.variables(value) for key, value in values.items()}
        if isinstance(values, (list, tuple)):
            return type(values)(self.variables(value) for value in values)
        return values


@contextlib.contextmanager
def building_in(main: Program, startup: Program) -> Iterator[Builder]:
    """Static mode, in which operators go to `main` and eager Tensors stand for its Variables."""
    with LOCK, guards.program_guard_unchecked(main, startup), mode._dygraph_guard(None):
        builder = Builder(main)
        former = building.switch(builder)
        try:
            yield builder
        finally:
            building.switch(former)


def returned(builder: Builder, value: Any, known: set[str]) -> Variable:
    """The Variable of a result: a copy where the result is an input or a parameter, which no operator writes."""
    var = builder.variable(value) if isinstance(value, _core.Tensor) else value
    if isinstance_of(var, Variable) and (var.is_data or var.persistable or var.name in known):
        return _ops.assign(var)
    return var
