"""Weight decay, for `ParamAttr(regularizer=...)` and an optimizer's `weight_decay`."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.mode import in_static_mode
from paddle._programs.block import Block
from paddle._programs.variable import Parameter

__all__ = ["L1Decay", "L2Decay"]


class WeightDecayRegularizer:
    """Base of all regularizers: `decay(param, grad, block)` returns the term to add to `grad`."""

    def __call__(self, param: Any, grad: Any, block: Any) -> Any:
        """The term to add to the gradient; implemented by subclasses."""
        raise NotImplementedError(f"'__call__' not implement in class {type(self).__name__}")

    def __str__(self) -> str:
        raise NotImplementedError(f"'__str__' not implement in class {type(self).__name__}")


class _Decay(WeightDecayRegularizer):
    """Adds regularization_coeff * param, or if `_of_sign` regularization_coeff * sign(param)."""

    _label = ""
    _of_sign = False

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        assert regularization_coeff is not None
        super().__init__()
        self._regularization_coeff = regularization_coeff

    def __call__(self, param: Any, grad: Any, block: Any) -> Any:
        """The term to add to the gradient of `param`; in static mode its operators are appended to `block`."""
        assert isinstance(param, Parameter), f"param must be a Parameter, but got {type(param)}"
        factor = self._regularization_coeff
        if not in_static_mode():
            return _ops.scale(_ops.sign(param) if self._of_sign else param, scale=factor)
        assert isinstance(block, Block), f"block must be a Block, but got {type(block)}"
        decay = block.create_var(dtype=param.dtype, shape=param.shape, lod_level=param.lod_level)
        if self._of_sign:
            block.append_op(type="sign", inputs={"X": param}, outputs={"Out": decay})
        source = decay if self._of_sign else param
        block.append_op(type="scale", inputs={"X": source}, outputs={"Out": decay}, attrs={"scale": factor})
        return decay

    def __str__(self) -> str:
        return f"{self._label}, regularization_coeff={self._regularization_coeff:f}"


class L2DecayRegularizer(_Decay):
    """Adds regularization_coeff * param."""

    _label = "L2Decay"


class L1DecayRegularizer(_Decay):
    """Adds regularization_coeff * sign(param)."""

    _label = "L1Decay"
    _of_sign = True


class L1Decay(L1DecayRegularizer):
    """Adds coeff * sign(param) to the gradient: a loss of coeff * sum(|param|).

    Examples:
        >>> import paddle
        >>> print(paddle.regularizer.L1Decay(0.5))
        L1Decay, regularization_coeff=0.500000
    """

    def __init__(self, coeff: float = 0.0) -> None:
        super().__init__(coeff)


class L2Decay(L2DecayRegularizer):
    """Adds coeff * param to the gradient: a loss of coeff / 2 * sum(param**2).

    Examples:
        >>> import paddle
        >>> print(paddle.regularizer.L2Decay(0.5))
        L2Decay, regularization_coeff=0.500000
    """

    def __init__(self, coeff: float = 0.0) -> None:
        super().__init__(coeff)
