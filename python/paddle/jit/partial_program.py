"""PartialProgramLayer: runs a ConcreteProgram in dygraph mode, as one operator on the tape."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode
from paddle._basics import numpy as np
from paddle._programs import backward
from paddle._programs.program import Program
from paddle._programs.variable import Variable, isinstance_of

from .concrete_program import ConcreteProgram
from .structure import leaves, rebuild

__all__: list[str] = []


class PartialProgramLayer:
    """The Programs of a ConcreteProgram with and without gradients, and the call of them.

    Args:
        concrete_program (ConcreteProgram): the function as a Program.
    """

    def __init__(self, concrete_program: ConcreteProgram) -> None:
        self._concrete = concrete_program
        self._origin_main_program = concrete_program.main_program
        self.training = True
        self._feeds = concrete_program.feeds()
        results = [leaf for leaf in leaves(concrete_program.result) if isinstance_of(leaf, Variable)]
        results += [var for _, _, var in concrete_program.assigned]
        #: each output once
        self._outs = list({var.name: var for var in results}.values())
        self._places = {var.name: i for i, var in enumerate(self._outs)}
        self._n_forward = len(self._origin_main_program.global_block().ops)
        self._train: Program | None = None

    @property
    def _infer_program(self) -> Program:
        return self._origin_main_program

    @property
    def _train_program(self) -> Program:
        if self._train is None:
            with mode._dygraph_guard(None):
                program = self._origin_main_program.clone()
                block = program.global_block()
                targets = [block.var(var.name) for var in self._outs]
                wanted = [v for v in targets if not v.stop_gradient]
                if wanted:
                    backward.gradients(targets=targets, inputs=[])
            self._train = program
        return self._train

    @property
    def program(self) -> Program:
        """The Program that a call in training runs: forward operators, then their gradients."""
        return self._train_program if self.training else self._infer_program

    def _params(self) -> list:
        """The captured Tensors as their Layers hold them now."""
        builder = self._concrete.builder
        assert builder is not None
        return [
            tensor if source is None else source[0].get(source[1], tensor)
            for tensor, source in zip(builder.tensors, builder.sources, strict=True)
        ]

    def __call__(self, args: Any, kwargs: dict | None = None) -> Any:
        inputs = [
            _tensor(leaf) for leaf in leaves([args, kwargs or {}]) if isinstance(leaf, (_core.Tensor, np.ndarray))
        ]
        outs: list = []
        if self._outs:
            outs = self._run(inputs, self._params())
        for layer, name, var in self._concrete.assigned:
            setattr(layer, name, outs[self._places[var.name]])

        def value(leaf: Any) -> Any:
            return outs[self._places[leaf.name]] if isinstance_of(leaf, Variable) else leaf

        result = self._concrete.result
        if isinstance(result, (list, tuple)) and len(result) == 1:
            result = result[0]
        return rebuild(result, value)

    def _run(self, inputs: list, params: list) -> list:
        recorded = _core.is_grad_enabled() and not all(t.stop_gradient for t in (*inputs, *params))
        program = self._train_program if recorded else self._infer_program
        builder = self._concrete.builder
        assert builder is not None
        outs = [_core.Tensor(var.dtype, [], var.name, var.type, False) for var in self._outs]
        inputs = _distinct(inputs, params)
        if not inputs:
            inputs, names = [_core.tensor_from_array(np.zeros(1, "float32"), True)], ["Fake_var"]
        else:
            names = [var.name for var in self._feeds]
        together = [*zip(inputs, names, strict=True), *zip(params, builder.names, strict=True)]
        former = [tensor.name for tensor, _ in together]
        try:
            for tensor, name in together:
                tensor.name = name
            _ops.run_program(
                inputs,
                params,
                Out=outs,
                global_block=program.desc.block(0),
                start_op_index=0,
                end_op_index=self._n_forward,
                is_test=not recorded,
            )
        finally:
            for (tensor, _), name in zip(together, former, strict=True):
                tensor.name = name
        return outs


def _tensor(value: Any) -> Any:
    return value if isinstance(value, _core.Tensor) else _core.tensor_from_array(value, True)


def _distinct(inputs: list, params: list) -> list:
    """A copy in place of each Tensor that occurs again: variables of a Program are distinguished by name."""
    seen = {id(t) for t in params}
    out = []
    for tensor in inputs:
        out.append(_ops.assign(tensor) if id(tensor) in seen else tensor)
        seen.add(id(tensor))
    return out


def partial_program_from(concrete_program: ConcreteProgram) -> PartialProgramLayer:
    """The PartialProgramLayer of a ConcreteProgram."""
    return PartialProgramLayer(concrete_program)
