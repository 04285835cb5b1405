"""Deep gradient compression (Lin et al., 2017): momentum with gradients that are communicated sparsely."""

from __future__ import annotations

import math
from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.names import OP_ROLE, OP_ROLE_VAR, OpRole
from paddle._programs.guards import default_main_program
from paddle.nn.clip import ClipGradByNorm, append_gradient_clip_ops
from paddle.nn.layer_helper import LayerHelper
from paddle.regularizer import L1DecayRegularizer, L2DecayRegularizer

from .base import Pairs, global_var
from .regularization import append_regularization_ops
from .rules import MomentumRule

__all__: list[str] = []

_COUNTER, _NRANKS, _BEGIN = "__g_dgc_counter__", "__g_nranks__", "__g_rampup_begin_step__"
_K, _ENCODED, _GATHER = "__dgc_k__", "__dgc_encoded__", "__dgc_gather__"
#: smaller parameters are communicated densely
_LEAST = 16384


def _decay(regularizer: Any) -> tuple[int, float]:
    """The operator's regularization type and coefficient."""
    kind = 0 if regularizer is None else 1 if isinstance(regularizer, L1DecayRegularizer) else 2
    if kind == 2 and not isinstance(regularizer, L2DecayRegularizer):
        raise AssertionError(f"dgc: the regularization must be L1Decay, L2Decay or None, got {type(regularizer)}")
    return kind, 0.0 if regularizer is None else float(regularizer._regularization_coeff)


def _once(name: str, value: float) -> tuple[Any, bool]:
    """A persistable float32 variable of one element, and whether it was created by this call."""
    known = default_main_program().global_block().vars.get(name)
    return (known, False) if known is not None else (global_var(name, [1], value, "float32"), True)


class DGCMomentumRule(MomentumRule):
    """Momentum; large gradients pass the operator `dgc` first, which accumulates the part that is not communicated."""

    type = "dgc_momentum"
    _velocity_acc_str = _u_velocity_acc_str = "_dgc_u_"
    _v_velocity_acc_str = "_dgc_v_"
    _momentum: Any
    _use_nesterov: bool
    _rampup_begin_step: int
    _rampup_step: int
    _sparsity: list[float]

    def _init_dgc(self, rampup_begin_step: int, rampup_step: int, sparsity: list[float], num_trainers: Any) -> None:
        assert rampup_begin_step >= 0, f"rampup_begin_step must not be negative, got {rampup_begin_step}"
        self._set(rampup_begin_step=rampup_begin_step, rampup_step=rampup_step, sparsity=list(sparsity))
        self._dgc_clip_norm: float | None = None
        clip = self._grad_clip
        if clip is not None:
            if not isinstance(clip, ClipGradByNorm):
                raise TypeError(f"dgc: grad_clip must be ClipGradByNorm, got {type(clip)}")
            assert isinstance(num_trainers, int) and num_trainers > 0, (
                f"dgc: with grad_clip num_trainers must be an integer above 0, got {num_trainers!r}"
            )
            self._dgc_clip_norm = clip.clip_norm * num_trainers**-0.5

    @staticmethod
    def _is_use_dgc(param: Any, grad: Any) -> bool:
        sparse = VarType.SELECTED_ROWS in (param.type, grad.type)
        return abs(math.prod(param.shape)) >= _LEAST and not sparse and param.dtype == VarType.FP32

    def _create_accumulators(self, block: Any, parameters: list[Any]) -> None:
        """The accumulators are created with the `dgc` operators."""

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        param, grad = param_and_grad
        velocity = self._get_accumulator(self._u_velocity_acc_str, param)
        inputs = {"Param": param, "Grad": grad, "Velocity": velocity}
        inputs["LearningRate"] = self._create_param_lr(param_and_grad)
        outputs = {"ParamOut": param, "VelocityOut": velocity}
        attrs = {"mu": self._momentum, "use_nesterov": self._use_nesterov}
        if not self._is_use_dgc(param, grad):
            return block.append_op(type="momentum", inputs=inputs, outputs=outputs, attrs=attrs)
        inputs.update(current_step=self._global_step_var, nranks=self._nranks_var)
        outputs["Grad_out"] = grad
        attrs["rampup_begin_step"] = float(self._rampup_begin_step)
        return block.append_op(type="dgc_momentum", inputs=inputs, outputs=outputs, attrs=attrs)

    def _append_dgc_ops(self, pairs: Pairs) -> None:
        program = default_main_program()
        program._enable_dgc = True
        block = program.global_block()
        self._global_step_var, new = _once(_COUNTER, -1.0)
        if new:
            step = self._global_step_var
            block._prepend_op(type="increment", inputs={"X": [step]}, outputs={"Out": [step]}, attrs={"step": 1.0})
        self._nranks_var, _ = _once(_NRANKS, -1.0)
        _once(_BEGIN, float(self._rampup_begin_step))
        self.helper = LayerHelper(type(self).__name__)
        for param, grad in pairs:
            u = self._add_accumulator(self._u_velocity_acc_str, param)
            if self._is_use_dgc(param, grad):
                self._append_dgc_op(block, param, grad, u)

    def _give_up_role(self, block: Any, names: list[str]) -> None:
        """Removes the gradient from backward's op_role_var: the operator `dgc` declares it."""
        for op in block.ops:
            if not op.has_attr(OP_ROLE_VAR) or op.attr(OP_ROLE) != int(OpRole.Backward):
                continue
            left = list(op.attr(OP_ROLE_VAR))
            if names[0] not in left:
                continue
            for name in names:
                left.remove(name)
            if left:
                op._set_attr(OP_ROLE_VAR, left)
            else:
                op._remove_attr(OP_ROLE_VAR)

    def _append_dgc_op(self, block: Any, param: Any, grad: Any, u: Any) -> None:
        v = self._add_accumulator(self._v_velocity_acc_str, param)
        k, encoded, gather = (global_var(param.name + name, [1], 0.0, param.dtype) for name in (_K, _ENCODED, _GATHER))
        self._give_up_role(block, [param.name, grad.name])
        clipped = grad if self._dgc_clip_norm is None else self._clip(grad, self._dgc_clip_norm)
        kind, coefficient = _decay(self.regularization if param.regularizer is None else param.regularizer)
        op = block.append_op(
            type="dgc",
            inputs={
                "U": u,
                "V": v,
                "Grad": clipped,
                "Param": param,
                "current_step": self._global_step_var,
                "nranks": self._nranks_var,
            },
            outputs={
                "U_out": u,
                "V_out": v,
                "EncodeGrad": encoded,
                "k": k,
                "Grad_out": grad,
                "GatherBuff": gather,
            },
            attrs={
                "m": self._momentum,
                "sparsity": self._sparsity,
                "use_nesterov": self._use_nesterov,
                "rampup_begin_step": float(self._rampup_begin_step),
                "rampup_step": float(self._rampup_step),
                "regular_coeff": coefficient,
                "regular_type": kind,
            },
        )
        op._set_attr(OP_ROLE, int(OpRole.Backward))
        op._set_attr(OP_ROLE_VAR, [param.name, grad.name])

    def _clip(self, grad: Any, norm: float) -> Any:
        name = unique_name.generate(f"{grad.name}_dgc_clip")
        out = grad.block.create_var(name=name, type=grad.type, dtype=grad.dtype, persistable=False)
        with grad.block.program._backward_role_guard():
            grad.block.append_op(
                type="dgc_clip_by_norm",
                inputs={"X": grad, "current_step": self._global_step_var},
                attrs={"max_norm": norm, "rampup_begin_step": float(self._rampup_begin_step)},
                outputs={"Out": out},
            )
        return out

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """Appends compression and updates; compressed gradients are clipped and decayed by `dgc`."""
        self._append_dgc_ops(params_grads)
        compressed = [pair for pair in params_grads if self._is_use_dgc(*pair)]
        whole = [pair for pair in params_grads if not self._is_use_dgc(*pair)]
        whole = append_gradient_clip_ops(whole) if self._grad_clip is None else self._grad_clip(whole)
        whole = append_regularization_ops(whole, self.regularization)
        return self._create_optimization_pass(sorted([*whole, *compressed], key=lambda pair: pair[0].name))
