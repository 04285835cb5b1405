"""The updates of one parameter by SGD, momentum and Adam, for the optimizers of paddle.optimizer and of fluid."""
from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_dygraph_mode
from paddle._basics.op_proto import OpProtoHolder
from paddle._programs.variable import Variable
from paddle.nn.layer_helper import LayerHelper
from paddle.regularizer import L2DecayRegularizer

from .base import OptimizerBase, Pairs, global_var

__all__: list[str] = []


class Rule(OptimizerBase):
    """An update by one operator, which is run at once or appended: a subclass says what it takes besides `Param`,
    `Grad` and `LearningRate`."""

    #: input slot (its output is `<slot>Out`) -> name of the accumulator
    _slots: ClassVar[Mapping[str, str]] = {}
    _operator: ClassVar[Any]
    _eager_attrs: dict[str, Any] = {}

    def _attrs(self) -> dict[str, Any]:
        """The attributes; what is a Variable goes into the slot `<Attribute>Tensor` of an appended operator."""
        return {}

    def _state_of(self, param: Any) -> dict[str, Any]:
        return {slot: self._get_accumulator(name, param) for slot, name in self._slots.items()}

    def _dygraph_pass(self, pairs: Pairs) -> None:
        attrs = self._attrs()
        # The same object while nothing changes: what was made of it is good then.
        if attrs != self._eager_attrs:
            self._eager_attrs = attrs
        super()._dygraph_pass(pairs)

    def _prepared(self, param: Any) -> tuple:
        """(parameter, inputs in the operator's order, where gradient and rate stand, attributes, keywords)."""
        state = self._state_of(param)
        names = [slot.name for slot in OpProtoHolder.instance().get_op_proto(self.type).inputs]
        inputs = [{"Param": param, **state}.get(name) for name in names]
        attrs = self._eager_attrs
        keywords = {**attrs, "ParamOut": param, **{slot + "Out": var for slot, var in state.items()}}
        return param, inputs, names.index("Grad"), names.index("LearningRate"), attrs, keywords

    def _update(self, param: Any, grad: Any, lr: Any) -> None:  # type: ignore[override]
        kept = self._kept.get(id(param))
        if kept is None or kept[4] is not self._eager_attrs:
            if kept is None:
                self._accumulators_of(param)
            kept = self._kept[id(param)] = self._prepared(param)
        _, inputs, grad_at, lr_at, _, keywords = kept
        inputs = inputs.copy()
        inputs[grad_at], inputs[lr_at] = grad, lr
        self._operator(*inputs, **keywords)

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        param, grad = param_and_grad
        state = {slot: [var] for slot, var in self._state_of(param).items()}
        inputs = {"Param": [param], "Grad": [grad], "LearningRate": [self._create_param_lr(param_and_grad)], **state}
        outputs = {"ParamOut": [param], **{slot + "Out": var for slot, var in state.items()}}
        attrs = self._attrs()
        for name in [name for name, value in attrs.items() if isinstance(value, Variable)]:
            inputs[name.capitalize() + "Tensor"] = [attrs.pop(name)]
        self._append_more(param, inputs, outputs, attrs)
        return block.append_op(type=self.type, inputs=inputs, outputs=outputs, attrs=attrs, stop_gradient=True)

    def _append_more(self, param: Any, inputs: dict, outputs: dict, attrs: dict) -> None:
        """Adds what only an appended operator takes."""


class MasterWeights(Rule):
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

    def _append_more(self, param: Any, inputs: dict, outputs: dict, attrs: dict) -> None:
        attrs["multi_precision"] = self._has_master(param)
        if self._has_master(param):
            inputs["MasterParam"] = outputs["MasterParamOut"] = [self._master_weights[param.name]]

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


class SGDRule(Rule):
    """param -= lr * grad."""

    type = "sgd"
    _operator = _ops.sgd

    def _update(self, param: Any, grad: Any, lr: Any) -> None:
        # Nothing to keep: the shortest way.
        _ops.sgd(param, lr, grad, ParamOut=param)


class MomentumRule(MasterWeights):
    """velocity = mu * velocity + grad; param -= lr * velocity."""

    type = "momentum"
    _operator = _ops.momentum
    _velocity_acc_str = "velocity"
    _slots = {"Velocity": _velocity_acc_str}
    _momentum: Any
    _use_nesterov: bool
    _regularization_method = ""
    _regularization_coeff = 0.0
    _rescale_grad = 1.0

    def _init_rule(
        self, momentum: Any, use_nesterov: bool, multi_precision: bool = False, rescale_grad: float = 1.0
    ) -> None:
        self._momentum = momentum
        self._use_nesterov = bool(use_nesterov)
        self._multi_precision = multi_precision
        self._rescale_grad = rescale_grad
        self._master_weights = {}

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

    def _attrs(self) -> dict[str, Any]:
        return {
            "mu": self._momentum,
            "use_nesterov": self._use_nesterov,
            "regularization_method": self._regularization_method,
            "regularization_coeff": self._regularization_coeff,
            "rescale_grad": self._rescale_grad,
        }


def _number(value: Any) -> float:
    return float(value.numpy().item(0)) if isinstance(value, Variable) else value


class AdamRule(MasterWeights):
    """Adam: the step is the mean of the gradients over the root of the mean of their squares."""

    type = "adam"
    _operator = _ops.adam
    _moment1_acc_str = "moment1"
    _moment2_acc_str = "moment2"
    _beta1_pow_acc_str = "beta1_pow_acc"
    _beta2_pow_acc_str = "beta2_pow_acc"
    _slots = {
        "Moment1": _moment1_acc_str,
        "Moment2": _moment2_acc_str,
        "Beta1Pow": _beta1_pow_acc_str,
        "Beta2Pow": _beta2_pow_acc_str,
    }
    _beta1: Any
    _beta2: Any
    _epsilon: float
    _lazy_mode: bool

    def _init_rule(
        self, beta1: Any, beta2: Any, epsilon: float, lazy_mode: bool, multi_precision: bool = False
    ) -> None:
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon
        self._lazy_mode = lazy_mode
        self._multi_precision = multi_precision
        self._master_weights = {}

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

    def _attrs(self) -> dict[str, Any]:
        beta1, beta2 = self._beta1, self._beta2
        if in_dygraph_mode():
            beta1, beta2 = _number(beta1), _number(beta2)
        return {"beta1": beta1, "beta2": beta2, "epsilon": self._epsilon, "lazy_mode": self._lazy_mode}

    def _append_more(self, param: Any, inputs: dict, outputs: dict, attrs: dict) -> None:
        super()._append_more(param, inputs, outputs, attrs)
        attrs["min_row_size_to_use_multithread"] = 1000
