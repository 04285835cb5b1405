"""PartialProgramLayer: runs a ConcreteProgram in dygraph mode, as one operator on the tape."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle._basics import mode
from paddle._basics import numpy as np
from paddle._basics.dtypes import VarType, convert_dtype
from paddle._basics.names import GRAD_VAR_SUFFIX, VERSION_MARK, grad_var_name
from paddle._programs import backward
from paddle._programs.program import Program
from paddle._programs.variable import Variable, isinstance_of
from paddle.nn.layer.layers import Layer

from .builder import ABSENT
from .concrete_program import ConcreteProgram, Presence
from .structure import leaves, rebuild

__all__: list[str] = []

_FLOATS = frozenset(("float16", "bfloat16", "float32", "float64", "complex64", "complex128"))


class PartialProgramLayer:
    """The Programs of a ConcreteProgram with and without gradients, and the call of them.

    Args:
        concrete_program (ConcreteProgram): the function as a Program.
    """

    def __init__(self, concrete_program: ConcreteProgram) -> None:
        _check_parameters(concrete_program.parameters)
        self._concrete = concrete_program
        self._origin_main_program = concrete_program.main_program
        self._feeds = concrete_program.feeds()
        results = _variables(concrete_program.result)
        results += _variables([value for _, _, value in concrete_program.assigned])
        #: each output once
        self._outs = list({var.name: var for var in results}.values())
        self._names = [var.name for var in self._outs]
        self._places = {var.name: i for i, var in enumerate(self._outs)}
        self._n_forward = len(self._origin_main_program.global_block().ops)
        self._n_train_forward = self._n_forward
        self._train: Program | None = None
        self._calls: dict[bool, Any] = {}
        builder = concrete_program.builder
        assert builder is not None
        self._captured = list(zip(builder.tensors, builder.sources, strict=True))
        #: whether every argument is a Tensor, and whether the result is one Tensor and nothing else
        self._plain = all(isinstance_of(leaf, Variable) for leaf in self._given())
        self._alone = isinstance_of(concrete_program.result, Variable) and not concrete_program.assigned

    def _given(self) -> list:
        inputs = self._concrete.inputs
        return list(inputs[1:] if inputs and isinstance(inputs[0], Layer) else inputs)

    @property
    def training(self) -> bool:
        """Whether the Layer is in training; True without one."""
        inputs = self._concrete.inputs
        return not inputs or not isinstance(inputs[0], Layer) or inputs[0].training

    @property
    def _infer_program(self) -> Program:
        return self._origin_main_program

    @property
    def _train_program(self) -> Program:
        if self._train is None:
            with mode._dygraph_guard(None):
                program = self._origin_main_program.clone()
                _stop_at_integers(program)
                block = program.global_block()
                targets = [block.var(var.name) for var in self._outs if _flows(var)]
                given = [
                    block.create_var(name=grad_var_name(var.name), dtype=var.dtype, shape=var.shape) for var in targets
                ]
                before = _copies(block)
                if targets:
                    stops = _independent(block) - {var.name for var in targets}
                    backward.gradients(targets=targets, inputs=[], target_gradients=given, no_grad_set=stops)
                # gradients inserts copies of values that the forward operators overwrite
                self._n_train_forward = self._n_forward + _copies(block) - before
            self._train = program
        return self._train

    @property
    def program(self) -> Program:
        """The Program that a call in training runs: forward operators, then their gradients."""
        return self._train_program if self.training else self._infer_program

    def _params(self) -> list:
        """The captured Tensors as their Layers hold them now."""
        return [tensor if source is None else source[0].get(source[1], tensor) for tensor, source in self._captured]

    def __call__(self, args: Any, kwargs: dict | None = None) -> Any:
        if self._plain and all(type(arg) is _core.Tensor for arg in args) and not kwargs:
            inputs = list(args)
        else:
            found = leaves([args, kwargs or {}])
            inputs = [_tensor(leaf) for leaf in found if isinstance(leaf, (_core.Tensor, np.ndarray))]
        params = self._params()
        outs: list = []
        if self._outs or self._n_forward:
            recorded = _core.is_grad_enabled() and not all(t.stop_gradient for t in (*inputs, *params))
            call = self._calls.get(recorded) or self._native(recorded)
            outs = call(inputs, params)
            for out, name in zip(outs, self._names, strict=True):
                out.name = name
        if self._alone:
            return outs[0]

        def value(leaf: Any) -> Any:
            if isinstance(leaf, Presence):
                return rebuild(leaf.value if value(leaf.present).numpy().item() else leaf.other, value)
            return outs[self._places[leaf.name]] if isinstance_of(leaf, Variable) else leaf

        for layer, name, kept in self._concrete.assigned:
            if kept is not ABSENT:
                setattr(layer, name, rebuild(kept, value))
            elif hasattr(layer, name):
                delattr(layer, name)
        return rebuild(self._concrete.result, value)

    def _native(self, recorded: bool) -> Any:
        """The call of the Program with gradients, or without."""
        found = self._calls.get(recorded)
        if found is None:
            builder = self._concrete.builder
            assert builder is not None
            program = self._train_program if recorded else self._infer_program
            flows = [recorded and _flows(var) for var in self._outs]
            count = self._n_train_forward if recorded else self._n_forward
            found = self._calls[recorded] = _core.StaticCall(
                program.desc,
                count,
                count if recorded else None,
                [var.name for var in self._feeds],
                builder.names,
                [var.name for var in self._outs],
                flows,
            )
        return found


def _stop_at_integers(program: Program) -> None:
    for block in program.blocks:
        for var in block.vars.values():
            if var.type == VarType.LOD_TENSOR and convert_dtype(var.dtype) not in _FLOATS:
                var.stop_gradient = True


def _independent(block: Any) -> set[str]:
    """Written variables that no Tensor with a gradient reaches: in dygraph mode they stop gradients."""
    flowing: set[str] = set()
    written: set[str] = set()
    for op in block.ops:
        names = op.input_arg_names
        leaves_in = (block._find_var_recursive(name) for name in names if name not in written)
        reached = any(name in flowing for name in names) or any(var and not var.stop_gradient for var in leaves_in)
        written.update(op.output_arg_names)
        # The inputs of a block of operators are not all named.
        if reached or op.has_attr("sub_block"):
            flowing.update(op.output_arg_names)
    return {name for name in written - flowing if block.has_var(name)}


def _check_parameters(parameters: Any) -> None:
    if not isinstance(parameters, (list, tuple)):
        raise TypeError(f"PartialProgramLayer: parameters must be a list or tuple, got {type(parameters).__name__}")
    for i, each in enumerate(parameters):
        if not isinstance(each, _core.Tensor):
            raise TypeError(f"PartialProgramLayer: parameters[{i}] must be a Tensor, got {type(each).__name__}")


def _copies(block: Any) -> int:
    """The number of operators that copy the value of a version of a variable."""
    copied = [op.output("Out")[0] for op in block.ops if op.type == "assign"]
    return sum(VERSION_MARK in name and GRAD_VAR_SUFFIX not in name for name in copied)


def _flows(var: Variable) -> bool:
    """Whether gradients flow from a result."""
    return not var.stop_gradient and convert_dtype(var.dtype) in _FLOATS


def _variables(nest: Any) -> list:
    found: list[Variable] = []
    for leaf in leaves(nest):
        if isinstance(leaf, Presence):
            found += _variables([leaf.present, leaf.value, leaf.other])
        elif isinstance_of(leaf, Variable):
            found.append(leaf)
    return found


def _tensor(value: Any) -> Any:
    return value if isinstance(value, _core.Tensor) else _core.tensor_from_array(value, True)


def partial_program_from(concrete_program: ConcreteProgram) -> PartialProgramLayer:
    """The PartialProgramLayer of a ConcreteProgram."""
    return PartialProgramLayer(concrete_program)
