"""ConcreteProgram: the Programs built from one function for one structure of arguments."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import paddle._core as _core
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.variable import Variable, isinstance_of
from paddle.nn.layer.layers import Layer
from paddle.static.creation import InputSpec

from .builder import ABSENT, Attribute, Builder, building_in, read_names, returned
from .dy2static.cache import convert_to_static
from .dy2static.errors import UnsupportedSyntaxError, translated
from .dy2static.values import Maybe, same
from .function_spec import FunctionSpec
from .structure import leaves, rebuild

__all__: list[str] = []


class ConcreteProgram:
    """A function as a Program.

    Attributes:
        inputs (list): the arguments, with Variables for Tensors; the Layer of a method comes first.
        kwargs (dict): the keyword arguments, likewise.
        outputs (list): the results, with Variables for Tensors; None for a function that returns None.
        parameters (list): the Layer's parameters and buffers, and other Tensors that the function reads.
        function: the dygraph function.
        main_program, startup_program (Program): the operators; the second one is empty.
        builder (Builder): the captured Tensors.
        assigned (list): (Layer, attribute, value) of each attribute that the function sets, with Variables for Tensors;
            ABSENT for one that it deletes.
        stateful (UnsupportedSyntaxError): for a function that sets an attribute, no Tensor, by its former value: a call
            runs in dygraph mode; None for others.
    """

    __slots__ = (
        "assigned",
        "builder",
        "function",
        "inputs",
        "kwargs",
        "main_program",
        "outputs",
        "parameters",
        "result",
        "startup_program",
        "stateful",
    )

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        parameters: list,
        function: Any,
        main_program: Program,
        startup_program: Program | None = None,
    ) -> None:
        self.inputs = inputs
        self.kwargs: dict[str, Any] = {}
        self.outputs = outputs
        #: the results in the function's own structure
        self.result = outputs
        self.parameters = parameters
        self.function = function
        self.main_program = main_program
        self.startup_program = startup_program
        self.builder: Builder | None = None
        self.assigned: list[tuple] = []
        self.stateful: UnsupportedSyntaxError | None = None

    @staticmethod
    def from_func_spec(
        func_spec: FunctionSpec, input_spec: list, input_kwargs_spec: dict, class_instance: Any, function: Any = None
    ) -> ConcreteProgram:
        """Call the function once on Variables.

        Args:
            func_spec (FunctionSpec): the function.
            input_spec (list), input_kwargs_spec (dict): its arguments, with InputSpecs for Tensors.
            class_instance (Layer, optional): the Layer that the function is a method of.
            function (callable, optional): the translated function, called in place of the function.

        Raises:
            RuntimeError: when the Layer was made in static mode.
            ValueError: when the function creates parameters.
        """
        if isinstance(class_instance, Layer) and not class_instance._init_in_dynamic_mode:
            raise RuntimeError(
                f"to_static is only available in dynamic mode, but the Layer {type(class_instance).__name__} was made "
                "in static mode: call paddle.disable_static() before it is made"
            )
        make = functools.partial(
            ConcreteProgram._made, func_spec, input_spec, input_kwargs_spec, class_instance, function
        )
        made, changed = make({})
        if changed:
            # Attributes that are no Tensors: a second time to know whether their new values depend on the old ones.
            made, _ = make(changed)
        return made

    @staticmethod
    def _made(
        func_spec: FunctionSpec,
        input_spec: list,
        input_kwargs_spec: dict,
        class_instance: Any,
        function: Any,
        watched: dict[tuple[int, str], Attribute],
    ) -> tuple[ConcreteProgram, dict[tuple[int, str], Attribute]]:
        """The ConcreteProgram, and the attributes to watch: those that had a value and got another one."""
        main, startup = Program(), Program()
        main.random_seed = guards.default_main_program().random_seed
        startup.random_seed = guards.default_startup_program().random_seed
        with building_in(main, startup) as builder, _restored(builder, watched):
            variables = _Feeds(main.global_block(), builder)
            args, kwargs = rebuild(input_spec, variables), rebuild(input_kwargs_spec, variables)
            inputs = [class_instance, *args] if class_instance is not None else args
            try:
                call = convert_to_static(function or func_spec.dygraph_function)
                result = getattr(call, "__func__", call)(*inputs, **kwargs)
            except Exception as error:
                raise translated(error, builder) from None
            known = read_names(main)
            flags: list[Variable] = []
            made: dict[int, Variable] = {}

            def out(value: Any) -> Any:
                if not (isinstance(value, _core.Tensor) or isinstance_of(value, Variable)):
                    return value
                if id(value) not in made:
                    made[id(value)] = returned(builder, value, known)
                    known.add(made[id(value)].name)
                return made[id(value)]

            result = rebuild(result, lambda leaf: _split(leaf, out, flags))
            assigned = [(layer, name, out(value)) for layer, name, value in builder.assigned.values()]
            changed, stateful = {}, None
            for key, attribute in builder.attributes.items():
                value = attribute.value()
                try:
                    kept = rebuild(value, out)
                except ValueError:  # computed in a branch or loop
                    stateful = stateful or _stateful(attribute, "is set by a function that a branch or loop calls")
                    continue
                before = attribute.before
                if before is ABSENT:
                    before = getattr(type(attribute.layer), attribute.name, ABSENT)
                if before is not ABSENT and not same(before, value):
                    changed[key] = attribute
                if key in builder.reads:
                    stateful = stateful or _stateful(attribute, "depends on its value before the call")
                assigned.append((attribute.layer, attribute.name, kept))
        _refuse_new_parameters(main, builder, func_spec)
        outputs = result
        if outputs is not None and (not isinstance(outputs, (tuple, list)) or len(outputs) == 1):
            outputs = [outputs]
        parameters = _members(class_instance)
        known_ids = {id(t) for t in parameters}
        parameters += [t for t in builder.tensors if id(t) not in known_ids]
        made_program = ConcreteProgram(
            inputs, outputs, parameters, func_spec.dygraph_function, main, startup_program=startup
        )
        made_program.kwargs, made_program.result = kwargs, result
        made_program.builder, made_program.assigned = builder, assigned
        made_program.stateful = stateful
        return made_program, changed

    def variables(self) -> list[Variable]:
        """The Variables among the results, in order."""
        return [leaf for leaf in leaves([self.outputs]) if isinstance_of(leaf, Variable)]

    def output_variables(self, caller: str) -> list[Variable]:
        """The Variables of the results, each once.

        Args:
            caller (str): named by errors.

        Raises:
            ValueError: for a result that is absent, or of another structure, in some branches: a model has the same
                outputs in every run.
        """
        found: dict[str, Variable] = {}
        for leaf in leaves([self.outputs]):
            if isinstance(leaf, Presence):
                name = getattr(self.function, "__qualname__", self.function)
                raise ValueError(
                    f"{caller}: {name}() returns another structure (or nothing) by the {leaf.where or 'loop'}, whose "
                    "condition is a Tensor: a saved Program has the same outputs in every run; return as many Tensors "
                    "in each branch"
                )
            if isinstance_of(leaf, Variable):
                found.setdefault(leaf.name, leaf)
        return list(found.values())

    def feeds(self) -> list[Variable]:
        """The Variables of the arguments, in order."""
        found = leaves([self.inputs, self.kwargs])
        return [leaf for leaf in found if isinstance_of(leaf, Variable)]


@contextlib.contextmanager
def _restored(builder: Builder, watched: dict[tuple[int, str], Attribute]) -> Iterator[None]:
    """Attributes of Layers have their values from before when the Program is built; `watched` are hidden until then."""
    try:
        for attribute in watched.values():
            builder.hide(attribute)
        yield
    finally:
        builder.hidden.clear()
        for attribute in builder.attributes.values():
            attribute.restore()


def _stateful(attribute: Attribute, why: str) -> UnsupportedSyntaxError:
    kind = type(attribute.layer).__name__
    what = f"the attribute '{attribute.name}' of {kind}, which {why},"
    return UnsupportedSyntaxError(
        f"to_static: {attribute.place}: {what} cannot be part of a Program. Make it a Tensor, by register_buffer in "
        "__init__",
        what,
        attribute.place,
    )


class _Feeds:
    """Replaces InputSpecs by data Variables; equal names get numbers."""

    def __init__(self, block: Any, builder: Builder) -> None:
        self.block, self.builder = block, builder
        self.count = 0

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, InputSpec):
            return value
        base = value.name or f"feed_{self.count}"
        self.count += 1
        name, n = base, 0
        while self.block.has_var(name):
            name, n = f"{base}_{n}", n + 1
        var = self.block.create_var(
            name=name, shape=value.shape, dtype=value.dtype, is_data=True, need_check_feed=False
        )
        var.stop_gradient = getattr(value, "stop_gradient", True)
        self.builder.derived.add(name)
        return var


class Presence:
    """A result that has another structure where `present` is False.

    Attributes:
        present (Variable): a bool of shape [1].
        value, other: the results, in their structures.
        where (str): the statement that chooses.
    """

    def __init__(self, present: Any, value: Any, other: Any, where: str) -> None:
        self.present, self.value, self.other, self.where = present, value, other, where


def _split(leaf: Any, out: Any, flags: list) -> Any:
    if not isinstance(leaf, Maybe):
        return out(leaf)
    present = leaf.present
    value, other = (rebuild(part, lambda item: _split(item, out, flags)) for part in (leaf.value, leaf.other))
    if isinstance(present, bool):
        return value if present else other
    flags.append(present)
    return Presence(out(present), value, other, leaf.where)


def _members(layer: Any) -> list:
    """The parameters and the buffers of a Layer, without buffers that have no value."""
    if not isinstance(layer, Layer):
        return []
    return [*layer.parameters(), *(buffer for buffer in layer.buffers() if len(buffer.shape) != 0)]


def _refuse_new_parameters(main: Program, builder: Builder, func_spec: FunctionSpec) -> None:
    known = set(builder.names)
    for param in main.all_parameters():
        if param.name not in known:
            raise ValueError(
                f"to_static: {func_spec.name}() creates the parameter {param.name}, which each call would create "
                "again; create Layers and parameters outside of it, in __init__"
            )
