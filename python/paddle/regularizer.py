"""Weight decay, for `ParamAttr(regularizer=...)` and an optimizer's `weight_decay`."""

from __future__ import annotations

from paddle.framework.regularizer import L1DecayRegularizer, L2DecayRegularizer

__all__ = ["L1Decay", "L2Decay"]


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
