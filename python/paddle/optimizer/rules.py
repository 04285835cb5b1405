"""Update rules: the operator, accumulators and attributes of each optimizer, shared by paddle.optimizer and fluid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._programs.name_scope import name_scope
from paddle._programs.variable import Variable
from paddle.regularizer import L2DecayRegularizer

from .base import Pairs
from .rule import MasterWeights, Rule

__all__: list[str] = []


class SGDRule(Rule):
    """param -= lr * grad."""

    type = "sgd"
    _operator = _ops.sgd

    def _update(self, param: Any, grad: Any, lr: Any) -> None:
        # No state: the shortest path.
        _ops.sgd(param, lr, grad, ParamOut=param)


class MomentumRule(MasterWeights):
    """velocity = mu * velocity + grad; param -= lr * velocity."""

    type = "momentum"
    _operator = _ops.momentum
    _velocity_acc_str = "velocity"
    _slots = {"Velocity": _velocity_acc_str}
    _numbers = {
        "mu": "_momentum",
        "use_nesterov": "_use_nesterov",
        "regularization_method": "_regularization_method",
        "regularization_coeff": "_regularization_coeff",
        "rescale_grad": "_rescale_grad",
    }
    _regularization_method = ""
    _regularization_coeff = 0.0

    def _init_rule(
        self, momentum: Any, use_nesterov: bool, multi_precision: bool = False, rescale_grad: float = 1.0
    ) -> None:
        self._set(momentum=momentum, use_nesterov=bool(use_nesterov), rescale_grad=rescale_grad)
        self._set(multi_precision=multi_precision, master_weights={})

    def _left_to_decay(self, decay: Any) -> Any:
        """L2 decay is applied by the operator (returns None); another regularizer is returned."""
        if not isinstance(decay, L2DecayRegularizer):
            return decay
        self._regularization_method = "l2_decay"
        self._regularization_coeff = decay._regularization_coeff
        return None


class LarsRule(Rule):
    """Momentum with layer-wise learning rates from the norms of weights and gradients (LARS)."""

    type = "lars_momentum"
    _operator = _ops.lars_momentum
    _velocity_acc_str = "velocity"
    _slots = {"Velocity": _velocity_acc_str}
    _numbers = {
        "mu": "_momentum",
        "lars_coeff": "_lars_coeff",
        "lars_weight_decay": "_lars_weight_decay",
        "epsilon": "_epsilon",
    }
    _exclude_from_weight_decay: list[str]

    def _attrs_of(self, param: Any) -> dict[str, Any]:
        plain = any(part in param.name for part in self._exclude_from_weight_decay)
        return {"lars_weight_decay": 0.0} if plain else {}


class Powers(Rule):
    """Rules with powers of their decay rates as accumulators."""

    _beta1_pow_acc_str = "beta1_pow_acc"
    _beta2_pow_acc_str = "beta2_pow_acc"
    #: initial power of a decay rate that is a Variable: its value is unknown while the Program is built
    _first_powers = {_beta1_pow_acc_str: ("_beta1", 0.9), _beta2_pow_acc_str: ("_beta2", 0.999)}

    def _fresh(self, accumulator: str, param: Any) -> dict[str, Any]:
        if accumulator not in self._first_powers:
            return super()._fresh(accumulator, param)
        field, default = self._first_powers[accumulator]
        beta = getattr(self, field)
        first = default if isinstance(beta, Variable) else beta
        return {"fill_value": first, "shape": [1], "type": VarType.LOD_TENSOR, "device": "cpu"}


def _number(value: Any) -> float:
    return float(value.numpy().item(0)) if isinstance(value, Variable) else value


class AdamRule(MasterWeights, Powers):
    """Adam: the step is the mean of the gradients divided by the root of the mean of their squares."""

    type = "adam"
    _operator = _ops.adam
    _moment1_acc_str = "moment1"
    _moment2_acc_str = "moment2"
    _slots = {
        "Moment1": _moment1_acc_str,
        "Moment2": _moment2_acc_str,
        "Beta1Pow": Powers._beta1_pow_acc_str,
        "Beta2Pow": Powers._beta2_pow_acc_str,
    }
    _numbers = {"beta1": "_beta1", "beta2": "_beta2", "epsilon": "_epsilon", "lazy_mode": "_lazy_mode"}

    def _init_rule(
        self, beta1: Any, beta2: Any, epsilon: float, lazy_mode: bool, multi_precision: bool = False
    ) -> None:
        self._set(beta1=beta1, beta2=beta2, epsilon=epsilon, lazy_mode=lazy_mode)
        self._set(multi_precision=multi_precision, master_weights={})

    def _fresh(self, accumulator: str, param: Any) -> dict[str, Any]:
        dtype = VarType.FP32 if param.dtype == VarType.FP16 else param.dtype
        return {"dtype": dtype, **super()._fresh(accumulator, param)}

    def _attrs(self) -> dict[str, Any]:
        attrs = super()._attrs()
        if not in_static_mode():
            attrs["beta1"], attrs["beta2"] = _number(attrs["beta1"]), _number(attrs["beta2"])
        return attrs

    def _append_more(self, param: Any, inputs: dict, outputs: dict, attrs: dict) -> None:
        super()._append_more(param, inputs, outputs, attrs)
        attrs["min_row_size_to_use_multithread"] = 1000


class LambRule(Powers):
    """The step of Adam plus weight decay, scaled to the norm of the weights times the learning rate."""

    type = "lamb"
    _operator = _ops.lamb
    _moment1_acc_str = "moment1"
    _moment2_acc_str = "moment2"
    _slots = AdamRule._slots
    _numbers = {"beta1": "_beta1", "beta2": "_beta2", "epsilon": "_epsilon", "weight_decay": "_lamb_weight_decay"}
    _exclude_from_weight_decay_fn: Callable[[Any], bool] | None

    def _attrs_of(self, param: Any) -> dict[str, Any]:
        exclude = self._exclude_from_weight_decay_fn
        return {"weight_decay": 0.0} if exclude is not None and exclude(param) else {}

    def _append_more(self, param: Any, inputs: dict, outputs: dict, attrs: dict) -> None:
        # fluid's class derives from Adam, whose operator takes further slots.
        return None


class AdamaxRule(Powers):
    """Adam with the infinity norm of decayed gradients as divisor."""

    type = "adamax"
    _operator = _ops.adamax
    _moment_acc_str = "moment"
    _inf_norm_acc_str = "inf_norm"
    _slots = {"Moment": _moment_acc_str, "InfNorm": _inf_norm_acc_str, "Beta1Pow": Powers._beta1_pow_acc_str}
    _outs = {"Beta1Pow": None}
    _numbers = {"beta1": "_beta1", "beta2": "_beta2", "epsilon": "_epsilon"}
    _beta1: float

    def _update(self, param: Any, grad: Any, lr: Any) -> None:
        super()._update(param, grad, lr)
        power = self._get_accumulator(self._beta1_pow_acc_str, param)
        _ops.scale(power, scale=self._beta1, Out=power)

    def _finish_update(self, block: Any, parameters_and_grads: Pairs) -> None:
        for param, grad in parameters_and_grads:
            if grad is None or getattr(param, "trainable", True) is False:
                continue
            with param.block.program._optimized_guard([param, grad]), name_scope("adamax"):
                power = self._get_accumulator(self._beta1_pow_acc_str, param)
                block.append_op(
                    type="scale",
                    inputs={"X": power},
                    outputs={"Out": power},
                    attrs={"scale": self._beta1},
                    stop_gradient=True,
                )


class AdagradRule(Rule):
    """The step is divided by the root of the sum of all squared gradients."""

    type = "adagrad"
    _operator = _ops.adagrad
    _moment_acc_str = "moment"
    _slots = {"Moment": _moment_acc_str}
    _numbers = {"epsilon": "_epsilon"}
    initial_accumulator_value: float

    def _fresh(self, accumulator: str, param: Any) -> dict[str, Any]:
        return {"fill_value": self.initial_accumulator_value}


class DecayedAdagradRule(Rule):
    """Adagrad with an exponential mean of the squares."""

    type = "decayed_adagrad"
    _operator = _ops.decayed_adagrad
    _moment_acc_str = "moment"
    _slots = {"Moment": _moment_acc_str}
    _numbers = {"epsilon": "_epsilon", "decay": "_decay"}


class AdadeltaRule(Rule):
    """Steps scaled by the root mean square of previous steps; the learning rate is not used."""

    type = "adadelta"
    _operator = _ops.adadelta
    _avg_squared_grad_acc_str = "_avg_squared_grad"
    _avg_squared_update_acc_str = "_avg_squared_update"
    _slots = {"AvgSquaredGrad": _avg_squared_grad_acc_str, "AvgSquaredUpdate": _avg_squared_update_acc_str}
    _numbers = {"epsilon": "_epsilon", "rho": "_rho"}
    _takes_rate = False


class RMSPropRule(Rule):
    """The gradient divided by the root of its mean square (`centered`: its variance), with momentum."""

    type = "rmsprop"
    _operator = _ops.rmsprop
    _momentum_acc_str = "momentum"
    _mean_square_acc_str = "mean_square"
    _mean_grad_acc_str = "mean_grad"
    _slots = {"Moment": _momentum_acc_str, "MeanSquare": _mean_square_acc_str, "MeanGrad": _mean_grad_acc_str}
    _numbers = {"epsilon": "_epsilon", "decay": "_rho", "momentum": "_momentum", "centered": "_centered"}


class FtrlRule(Rule):
    """Follow the regularized leader, with L1 and L2."""

    type = "ftrl"
    _operator = _ops.ftrl
    _squared_acc_str = "squared"
    _linear_acc_str = "linear"
    _slots = {"SquaredAccumulator": _squared_acc_str, "LinearAccumulator": _linear_acc_str}
    _outs = {"SquaredAccumulator": "SquaredAccumOut", "LinearAccumulator": "LinearAccumOut"}
    _numbers = {"l1": "_l1", "l2": "_l2", "lr_power": "_lr_power"}


class DpsgdRule(Rule):
    """SGD with the gradient's norm clipped and noise added."""

    type = "dpsgd"
    _operator = _ops.dpsgd
    _numbers = {"clip": "_clip", "batch_size": "_batch_size", "sigma": "_sigma"}
    _seed: int | None = None

    def _attrs(self) -> dict[str, Any]:
        return {**super()._attrs(), "seed": self._seed or 0}
