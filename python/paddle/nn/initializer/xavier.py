"""Xavier (Glorot) initializers."""

from __future__ import annotations

from paddle.nn.initializer.base import XavierInitializer

__all__ = ["XavierNormal", "XavierUniform"]


class XavierNormal(XavierInitializer):
    """Normal with standard deviation sqrt(2 / (fan_in + fan_out)); fans are computed from the shape unless given.

    Examples:
        >>> import paddle
        >>> paddle.nn.Linear(2, 3, weight_attr=paddle.nn.initializer.XavierNormal()).weight.shape
        [2, 3]
    """

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:
        super().__init__(uniform=False, fan_in=fan_in, fan_out=fan_out, seed=0)


class XavierUniform(XavierInitializer):
    """Uniform within sqrt(6 / (fan_in + fan_out)); fans are computed from the shape unless given.

    Examples:
        >>> import paddle
        >>> weight = paddle.nn.Linear(2, 4, weight_attr=paddle.nn.initializer.XavierUniform()).weight
        >>> bool((abs(weight.numpy()) <= 1.0).all())
        True
    """

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:
        super().__init__(uniform=True, fan_in=fan_in, fan_out=fan_out, seed=0)
