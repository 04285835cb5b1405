"""Rule: a parameter update by one operator, the base of the rules shared by paddle.optimizer and fluid."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._basics.op_proto import OpProtoHolder
from paddle._dispatch.device_step import has_update, update_all
from paddle._programs.variable import Variable
from paddle.nn.layer_helper import LayerHelper

from .base import OptimizerBase, Pairs, _rate_factor, global_var

__all__: list[str] = []


class Rule(OptimizerBase):
    """An update by one operator, which is run or appended; a subclass declares its slots besides `Param`, `Grad` and
    `LearningRate`."""

    #: input slot -> name of the accumulator
    _slots: ClassVar[Mapping[str, str]] = {}
    #: input slot -> output slot, if not `<slot>Out` (None: read only)
    _outs: ClassVar[Mapping[str, str | None]] = {}
    #: attribute -> field with its value
    _numbers: ClassVar[Mapping[str, str]] = {}
    #: whether the operator reads the learning rate
    _takes_rate: ClassVar[bool] = True
    _operator: ClassVar[Any]
    _eager_attrs: dict[str, Any] = {}

    def _set(self, **numbers: Any) -> None:
        """Stores the hyperparameters in the fields `_<name>`."""
        for name, value in numbers.items():
            setattr(self, "_" + name, value)

    def _attrs(self) -> dict[str, Any]:
        """The attributes; a Variable is passed in the slot `<Attribute>Tensor` of an appended operator."""
        return {attr: getattr(self, field) for attr, field in self._numbers.items()}

    def _attrs_of(self, param: Any) -> dict[str, Any]:
        """Attributes of one parameter that differ from `_attrs`."""
        return {}

    def _fresh(self, accumulator: str, param: Any) -> dict[str, Any]:
        """Initial state of an accumulator: arguments of `_add_accumulator` (default: zeros like the parameter)."""
        return {}

    def _create_accumulators(self, block: Any, parameters: list[Any]) -> None:
        for param in parameters:
            for name in self._slots.values():
                self._add_accumulator(name, param, **self._fresh(name, param))

    def _state_of(self, param: Any) -> dict[str, Any]:
        return {slot: self._get_accumulator(name, param) for slot, name in self._slots.items()}

    def _changed(self, state: dict[str, Any]) -> dict[str, Any]:
        """The accumulators by the output slots that write them."""
        outs = {self._outs.get(slot, slot + "Out"): var for slot, var in state.items()}
        return {slot: var for slot, var in outs.items() if slot is not None}

    def _dygraph_pass(self, pairs: Pairs) -> None:
        attrs = self._attrs()
        # The same object while nothing changes, so that cached calls stay valid.
        if attrs != self._eager_attrs:
            self._eager_attrs = attrs
        super()._dygraph_pass(pairs)

    def _prepared(self, param: Any) -> tuple:
        """(parameter, inputs in the operator's order, their positions by slot, attributes, keywords)."""
        state = self._state_of(param)
        names = [slot.name for slot in OpProtoHolder.instance().get_op_proto(self.type).inputs]
        inputs = [{"Param": param, **state}.get(name) for name in names]
        attrs = self._eager_attrs
        keywords = {**attrs, **self._attrs_of(param), "ParamOut": param, **self._changed(state)}
        return param, inputs, {name: i for i, name in enumerate(names)}, attrs, keywords

    def _update(self, param: Any, grad: Any, lr: Any) -> None:  # type: ignore[override]
        self._run(param, grad, lr)

    def _run(self, param: Any, grad: Any, lr: Any, **more: Any) -> None:
        """Runs the operator; `more`: additional inputs of this step, by slot."""
        kept = self._kept.get(id(param))
        if kept is None or kept[3] is not self._eager_attrs:
            if kept is None:
                self._accumulators_of(param)
            kept = self._kept[id(param)] = self._prepared(param)
        _, inputs, at, _, keywords = kept
        inputs = inputs.copy()
        inputs[at["Grad"]] = grad
        if self._takes_rate:
            inputs[at["LearningRate"]] = lr
        for slot, var in more.items():
            inputs[at[slot]] = var
        self._operator(*inputs, **keywords)

    def _factors(self, pairs: Pairs) -> list | None:
        """Numbers by which `_update_together` multiplies the parameters first; None: no such step."""
        return None

    def _update_together(self, pairs: Pairs, rate: Any) -> bool:
        if not has_update(self.type) or any(self._attrs_of(p) for p, _ in pairs):
            return False
        if getattr(self, "_lazy_mode", False):
            return False
        for param, _ in pairs:
            if self._slots and id(param) not in self._kept:
                self._accumulators_of(param)
                self._kept[id(param)] = self._prepared(param)
        rates = [self._scaled_rate(rate, _rate_factor(p)) for p, _ in pairs]
        params = [id(p) for p, _ in pairs]
        # Accumulators stay the same variables, as in `_kept`, which refers to the parameters.
        if self._together is None or self._together[0] != params:
            self._together = params, [self._state_of(p) for p, _ in pairs]
        return update_all(self.type, pairs, rates, self._together[1], self._eager_attrs, self._factors(pairs))

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        param, grad = param_and_grad
        state = {slot: [var] for slot, var in self._state_of(param).items()}
        inputs = {"Param": [param], "Grad": [grad], **state}
        if self._takes_rate:
            inputs["LearningRate"] = [self._create_param_lr(param_and_grad)]
        outputs = {"ParamOut": [param], **self._changed(state)}
        attrs = {**self._attrs(), **self._attrs_of(param)}
        for name in [name for name, value in attrs.items() if isinstance(value, Variable)]:
            inputs[name.capitalize() + "Tensor"] = [attrs.pop(name)]
        self._append_more(param, inputs, outputs, attrs)
        return block.append_op(type=self.type, inputs=inputs, outputs=outputs, attrs=attrs, stop_gradient=True)

    def _append_more(self, param: Any, inputs: dict, outputs: dict, attrs: dict) -> None:
        """Adds arguments of appended operators only."""


class MasterWeights(Rule):
    """float32 master weights of float16 parameters in static Programs (multi_precision)."""

    _multi_precision = False
    _master_weights: dict[str, Any]

    def _has_master(self, param: Any) -> bool:
        return self._multi_precision and param.dtype == VarType.FP16 and in_static_mode()

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
        weight = self._master_weights.get(param.name, param) if self._multi_precision else param
        return super()._get_accumulator(name, weight)

    def _create_accumulators(self, block: Any, parameters: list[Any]) -> None:
        for param in parameters:
            super()._create_accumulators(block, [self._accumulated(param)])

    def _append_more(self, param: Any, inputs: dict, outputs: dict, attrs: dict) -> None:
        attrs["multi_precision"] = self._has_master(param)
        if self._has_master(param):
            inputs["MasterParam"] = outputs["MasterParamOut"] = [self._master_weights[param.name]]

    def _accumulated(self, param: Any) -> Any:
        """The parameter, or its master weight, that the accumulators belong to."""
        if self._has_master(param):
            return self._create_master_weight(param)
        if param.dtype == VarType.FP16:
            warnings.warn(
                f"{type(self).__name__}: float16 accumulators lose precision; multi_precision=True keeps them in "
                "float32"
            )
        return param
