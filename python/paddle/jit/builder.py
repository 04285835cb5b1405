"""Builder: the state while a Program is built from a function of dygraph mode.

An eager Tensor that the function reads becomes a Variable of the Program and an input of the call. A Tensor that is a
member of a Layer is read again from the Layer at each call, so that a replaced parameter takes effect.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import convert_dtype
from paddle._programs import building, guards
from paddle._programs.parameter import ParamBase
from paddle._programs.program import Program
from paddle._programs.variable import Parameter, Variable, isinstance_of
from paddle.tensor.creation import assign
from paddle.tensor.manipulation import concat, reshape, stack
from paddle.tensor.tensor import to_tensor

from .dy2static.convert_call_func import convert_call
from .dy2static.errors import refuse_truth, user_place
from .structure import leaves

__all__: list[str] = []

#: One Program is built at a time: the mode and the default Programs belong to the process.
LOCK = threading.RLock()
#: the value of an attribute that is not there
ABSENT: Any = object()
#: constants of more elements are inputs of the call, not attributes of an operator
_SMALL = 1024


class Attribute(NamedTuple):
    """An attribute of a Layer, no parameter, buffer or sublayer, that the function sets or deletes.

    `before`: its value before the call, or ABSENT; `place`: file and line of the first assignment.
    """

    layer: Any
    name: str
    before: Any
    place: str

    def value(self) -> Any:
        """The value now, or ABSENT."""
        return self.layer.__dict__.get(self.name, ABSENT)

    def restore(self) -> None:
        """Give it the value from before the call."""
        if self.before is ABSENT:
            self.layer.__dict__.pop(self.name, None)
        else:
            self.layer.__dict__[self.name] = self.before


class Builder:
    """Maps eager Tensors and members of Layers to Variables of one Program.

    Attributes:
        tensors (list): the captured Tensors, in the order of their first use.
        sources (list): for each Tensor the table of its Layer and the name in it, or None.
        names (list): their Variables' names.
        derived (set): names of variables whose stop_gradient follows from that of inputs.
        assigned (dict): (id of a Layer, attribute) to (Layer, attribute, Variable) for members that the function sets.
        attributes (dict): likewise to the Attribute, for other attributes.
        hidden (dict): likewise to the value of an attribute that is kept here until the function sets it: `reads` has
            the keys of those that the function reads before.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        #: the attributes that were hidden at the start
        self.watched: dict[tuple[int, str], Attribute] = {}
        self.tensors: list[Any] = []
        self.sources: list[Any] = []
        self.names: list[str] = []
        self.assigned: dict[tuple[int, str], tuple] = {}
        self.attributes: dict[tuple[int, str], Attribute] = {}
        self.hidden: dict[tuple[int, str], Any] = {}
        self.reads: set[tuple[int, str]] = set()
        self.derived: set[str] = set()
        #: whether the Program has gradients: operators within it may be under no_grad
        self.recording = _core.is_grad_enabled()
        self._vars: dict[int, Variable] = {}
        #: name -> (exception type, text) of names that a statement left unbound
        self.reasons: dict[str, tuple[type, str]] = {}

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

    def will_change(self, layer: Any, name: str) -> None:
        """An attribute is about to be set or deleted: `attributes` has its value from before the call."""
        key = id(layer), name
        hidden = self.hidden.pop(key, ABSENT)
        members = layer.__dict__
        # not of a Layer that the function makes, nor what a first call of build_once leaves
        if key not in self.attributes and members.get("_init_in_dynamic_mode") and name != "_built":
            before = members.get(name, ABSENT) if hidden is ABSENT else hidden
            self.attributes[key] = Attribute(layer, name, before, user_place())
        if hidden is not ABSENT:
            members.setdefault(name, hidden)

    def hide(self, attribute: Attribute) -> None:
        """Keep the value of an attribute here until the function sets it."""
        key = id(attribute.layer), attribute.name
        self.attributes[key] = attribute
        if hasattr(type(attribute.layer), attribute.name):  # reading it would find the attribute of the class
            self.reads.add(key)
        elif attribute.before is not ABSENT:
            self.watched[key] = attribute
            self.hidden[key] = attribute.layer.__dict__.pop(attribute.name)

    def hidden_value(self, layer: Any, name: str) -> Any:
        """The value of an attribute that is hidden; counts as a read."""
        self.reads.add((id(layer), name))
        return self.hidden[id(layer), name]

    def put_back(self, layer: Any, name: str, value: Any) -> bool:
        """Hide an attribute again that gets its value from before the call; whether it is one."""
        key = id(layer), name
        if key in self.hidden:
            return self.hidden[key] is value
        found = self.watched.get(key)
        if found is None or found.before is not value:
            return False
        layer.__dict__.pop(name, None)
        self.hidden[key] = value
        return True

    @staticmethod
    def no_value(what: str) -> TypeError:
        """The error for a Variable whose value Python needs."""
        return refuse_truth(what, "Use it in an `if` or `while` statement of a translated function")

    @staticmethod
    def out_of_reach(var: Any) -> ValueError:
        """The error for a Variable of a branch or loop that is read behind it, or in another pass over its body."""
        return ValueError(
            f"the Tensor '{var.name}' was computed in a branch or loop on a Tensor and is read outside of it: a "
            "function that is called there changed a list, a dict, an attribute or a name of its caller. Return the "
            "value, and assign it in the `if`, `while` or `for` statement"
        )

    def converted(self, function: Any) -> Any:
        """The translated form of a function that library code calls."""
        return convert_call(function)

    def forward_of(self, layer: Any) -> Any:
        """The translated forward of a Layer."""
        return convert_call(layer.forward)

    @staticmethod
    def has_tensors(values: Any) -> bool:
        """Whether eager Tensors are among the leaves of nested arguments."""
        return any(isinstance_of(leaf, _core.Tensor) for leaf in leaves(values))

    def to_tensor(self, data: Any, dtype: Any) -> Any:
        """`paddle.to_tensor` of Variables, of numbers, or of nested lists of both."""
        value = self.variables(data)
        if isinstance_of(value, Variable):
            if dtype is None or convert_dtype(dtype) == convert_dtype(value.dtype):
                return value
            return value.astype(dtype)
        if isinstance(value, (list, tuple)) and any(isinstance_of(leaf, Variable) for leaf in leaves(value)):
            rows = [self.to_tensor(item, dtype) for item in value]
            rows = [row if row.dtype == rows[0].dtype else row.astype(rows[0].dtype) for row in rows]
            return stack(rows) if isinstance(value[0], (list, tuple)) else concat([reshape(row, [1]) for row in rows])
        former = _core.set_thread_mode(False)
        try:
            made = to_tensor(value, dtype)
        finally:
            _core.set_thread_mode(former)
        if made.size <= _SMALL and convert_dtype(made.dtype) in ("bool", "float32", "int32", "int64"):
            return assign(made.numpy())
        return self.variable(made)

    def variables(self, values: Any) -> Any:
        """`values` (an operator's inputs by slot) with Variables in place of eager Tensors."""
        if isinstance(values, _core.Tensor):
            return self.variable(values)
        if isinstance(values, dict):
            return {key: self.variables(value) for key, value in values.items()}
        if isinstance(values, (list, tuple)):
            if not self.has_tensors(values):
                return values
            items = [self.variables(value) for value in values]
            return type(values)(*items) if hasattr(values, "_fields") else type(values)(items)
        return values


@contextlib.contextmanager
def building_in(main: Program, startup: Program) -> Iterator[Builder]:
    """Static mode, in which operators go to `main` and eager Tensors stand for its Variables."""
    with LOCK, _own_mode(), guards.program_guard_unchecked(main, startup), mode._dygraph_guard(None):
        builder = Builder(main)
        former = building.switch(builder)
        try:
            yield builder
        finally:
            building.switch(former)


class _Constants(Builder):
    """Appends to a Program of static mode: eager Tensors become constants of it."""

    def variable(self, tensor: Any, source: tuple[dict, str] | None = None) -> Variable:
        return assign(tensor.numpy())  # type: ignore[return-value]


@contextlib.contextmanager
def appending_to(program: Program) -> Iterator[None]:
    """Translated code appends to a Program of static mode."""
    with LOCK:
        former = building.switch(building.current or _Constants(program))
        try:
            yield
        finally:
            building.switch(former)


@contextlib.contextmanager
def _own_mode() -> Iterator[None]:
    """A mode of this thread: other threads go on in dygraph mode."""
    former = _core.set_thread_mode(mode.in_static_mode())
    try:
        yield
    finally:
        _core.set_thread_mode(former)


_core.set_variable_hook(lambda tensor: building.current.variable(tensor))


def read_names(program: Program) -> set[str]:
    """The names that operators of a Program read."""
    return {name for block in program.blocks for op in block.ops for name in op.input_arg_names}


def returned(builder: Builder, value: Any, known: set[str]) -> Variable:
    """The Variable of a result: a copy of an input or a parameter, and of one that operators read (`known`).

    A result that operators read would have two gradients, theirs and that of the caller.
    """
    var = builder.variable(value) if isinstance(value, _core.Tensor) else value
    if not var.block.program.global_block().has_var(var.name):
        raise builder.out_of_reach(var)
    if var.is_data or var.persistable or var.name in known:
        return _ops.assign(var)
    return var
