"""The updates of one parameter by SGD, momentum and Adam, for the optimizers of paddle.optimizer and of fluid."""
from __future__ import annotations

import warnings
from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_dygraph_mode
from paddle._programs.variable import Variable
from paddle.nn.layer_helper import LayerHelper
from paddle.regularizer import L2DecayRegularizer

from .base import OptimizerBase, global_var

__all__: list[str] = []


class MasterWeights(OptimizerBase):
    """float32 copies of float16 parameters, which static Programs update instead (multi_precision)."""

    _multi_precision = False
    _master_weights: dict[str, Any]

    def _has_master(self, param: Any) -> bool:
        return self._multi_precision and param.dtype == VarType.FP16 and not in_dygraph_mode()

    def _create_master_weight(self, param: Any) -> Any:
        assert isinstance(self.helper, LayerHelper)
        var = global_var(unique_name.generate(param.name + "_fp32_master"), list(param.shape), 0.0, VarType.FP32)
        self.helper.startup_program.global_block().append_op(
            type="cast",
            inputs={"X": [param]},
            outputs={"Out": [var]},
            attrs={"in_dtype": param.dtype, "out_dtype": VarType.FP32},
        )
        self._master_weights[param.name] = var
        return var

    def _get_accumulator(self, name: str, param: Any) -> Any:
        return super()._get_accumulator(name, self._master_weights.get(param.name, param))

    def _accumulated(self, param: Any) -> Any:
        """What the accumulators belong to: the parameter or its master weight."""
        if self._has_master(param):
            return self._create_master_weight(param)
        if param.dtype == VarType.FP16:
            warnings.warn(
                f"{type(self).__name__}: float16 accumulators lose precision; multi_precision=True keeps them in "
                "float32"
            )
        return param


class SGDRule(OptimizerBase):
    """param -= lr * grad."""

    type = "sgd"

    def _update(self, param: Any, grad: Any, lr: Any) -> None:  # type: ignore[override]
        _ops.sgd(param, lr, grad, ParamOut=param)

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        param, grad = param_and_grad
        return block.append_op(
            type="sgd",
            inputs={"Param": param, "Grad": grad, "LearningRate": self._create_param_lr(param_and_grad)},
            outputs={"ParamOut": param},
            stop_gradient=True,
        )


class MomentumRule(MasterWeights):
    """velocity = mu * velocity + grad; param -= lr * velocity."""

    type = "momentum"
    _velocity_acc_str = "velocity"
    _momentum: Any
    _use_nesterov: bool
    _regularization_method = ""
    _regularization_coeff = 0.0
    _rescale_grad = 1.0

    def _left_to_decay(self, decay: Any) -> Any:
        """The operator itself decays weights by L2; any other regularizer is given back, to be applied before it."""
        if not isinstance(decay, L2DecayRegularizer):
            return decay
        self._regularization_method = "l2_decay"
        self._regularization_coeff = decay._regularization_coeff
        return None

    def _create_accumulators(self, block: Any, parameters: list[Any]) -> None:
        for param in parameters:
            self._add_accumulator(self._velocity_acc_str, self._accumulated(param))

    def _update(self, param: Any, grad: Any, lr: Any) -> None:  # type: ignore[override]
        kept = self._kept.get(id(param))
        if kept is None:
            self._accumulators_of(param)
            kept = self._kept[id(param)] = (param, self._get_accumulator(self._velocity_acc_str, param))
        velocity = kept[1]
        _ops.momentum(
            param,
            grad,
            velocity,
            lr,
            mu=self._momentum,
            use_nesterov=self._use_nesterov,
            regularization_method=self._regularization_method,
            regularization_coeff=self._regularization_coeff,
            rescale_grad=self._rescale_grad,
            ParamOut=param,
            VelocityOut=velocity,
        )

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        param, grad = param_and_grad
        velocity = self._get_accumulator(self._velocity_acc_str, param)
        inputs = {
            "Param": [param],
            "Grad": [grad],
            "Velocity": [velocity],
            "LearningRate": [self._create_param_lr(param_and_grad)],
        }
        outputs = {"ParamOut": [param], "VelocityOut": [velocity]}
        if self._has_master(param):
            inputs["MasterParam"] = outputs["MasterParamOut"] = [self._master_weights[param.name]]
        return block.append_op(
            type="momentum",
            inputs=inputs,
            outputs=outputs,
            attrs={
                "mu": self._momentum,
                "use_nesterov": self._use_nesterov,
                "regularization_method": self._regularization_method,
                "regularization_coeff": self._regularization_coeff,
                "multi_precision": self._has_master(param),
                "rescale_grad": self._rescale_grad,
            },
            stop_gradient=True,
        )


def _number(value: Any) -> float:
    return float(value.numpy().item(0)) if isinstance(value, Variable) else value


class AdamRule(MasterWeights):
    """Adam: the step is the mean of the gradients over the root of the mean of their squares."""

    type = "adam"
    _moment1_acc_str = "moment1"
    _moment2_acc_str = "moment2"
    _beta1_pow_acc_str = "beta1_pow_acc"
    _beta2_pow_acc_str = "beta2_pow_acc"
    _beta1: Any
    _beta2: Any
    _epsilon: float
    _lazy_mode: bool

    def _create_accumulators(self, block: Any, parameters: list[Any]) -> None:
        for param in parameters:
            self._add_moments_pows(self._accumulated(param))

    def _add_moments_pows(self, param: Any) -> None:
        dtype = VarType.FP32 if param.dtype == VarType.FP16 else param.dtype
        self._add_accumulator(self._moment1_acc_str, param, dtype=dtype)
        self._add_accumulator(self._moment2_acc_str, param, dtype=dtype)
        for name, beta, default in (
            (self._beta1_pow_acc_str, self._beta1, 0.9),
            (self._beta2_pow_acc_str, self._beta2, 0.999),
        ):
            self._add_accumulator(
                name,
                param,
                dtype=dtype,
                fill_value=default if isinstance(beta, Variable) else beta,
                shape=[1],
                type=VarType.LOD_TENSOR,
                device="cpu",
            )

    def _state_of(self, param: Any) -> tuple[Any, Any, Any, Any]:
        return (
            self._get_accumulator(self._moment1_acc_str, param),
            self._get_accumulator(self._moment2_acc_str, param),
            self._get_accumulator(self._beta1_pow_acc_str, param),
            self._get_accumulator(self._beta2_pow_acc_str, param),
        )

    def _update(self, param: Any, grad: Any, lr: Any) -> None:  # type: ignore[override]
        kept = self._kept.get(id(param))
        if kept is None:
            self._accumulators_of(param)
            kept = self._kept[id(param)] = (param, *self._state_of(param))
        _, moment1, moment2, beta1_pow, beta2_pow = kept
        _ops.adam(
            param,
            grad,
            lr,
            moment1,
            moment2,
            beta1_pow,
            beta2_pow,
            beta1=_number(self._beta1),
            beta2=_number(self._beta2),
            epsilon=self._epsilon,
            lazy_mode=self._lazy_mode,
            ParamOut=param,
            Moment1Out=moment1,
            Moment2Out=moment2,
            Beta1PowOut=beta1_pow,
            Beta2PowOut=beta2_pow,
        )

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        param, grad = param_and_grad
        state = dict(zip(("Moment1", "Moment2", "Beta1Pow", "Beta2Pow"), self._state_of(param), strict=True))
        inputs = {"Param": [param], "Grad": [grad], "LearningRate": [self._create_param_lr(param_and_grad)]}
        inputs.update((slot, [var]) for slot, var in state.items())
        outputs = {"ParamOut": [param], **{slot + "Out": [var] for slot, var in state.items()}}
        attrs = {
            "epsilon": self._epsilon,
            "lazy_mode": self._lazy_mode,
            "min_row_size_to_use_multithread": 1000,
            "multi_precision": self._has_master(param),
        }
        for slot, beta in (("Beta1Tensor", self._beta1), ("Beta2Tensor", self._beta2)):
            if isinstance(beta, Variable):
                inputs[slot] = [beta]
            else:
                attrs[slot[:5].lower()] = beta
        if self._has_master(param):
            inputs["MasterParam"] = outputs["MasterParamOut"] = [self._master_weights[param.name]]
        return block.append_op(type="adam", inputs=inputs, outputs=outputs, attrs=attrs, stop_gradient=True)
