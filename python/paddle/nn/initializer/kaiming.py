"""Kaiming initializers, for layers followed by a ReLU."""

from __future__ import annotations

from paddle.nn.initializer.base import MSRAInitializer

__all__ = ["KaimingUniform", "KaimingNormal"]


class KaimingNormal(MSRAInitializer):
    """Normal with standard deviation sqrt(2 / fan_in); `fan_in` is computed from the shape unless given.

    Examples:
        >>> import paddle
        >>> paddle.nn.Linear(2, 3, weight_attr=paddle.nn.initializer.KaimingNormal()).weight.shape
        [2, 3]
    """

    def __init__(self, fan_in: float | None = None) -> None:
        super().__init__(uniform=False, fan_in=fan_in, seed=0)


class KaimingUniform(MSRAInitializer):
    """Uniform within sqrt(6 / fan_in); `fan_in` is computed from the shape unless given.

    Examples:
        >>> import paddle
        >>> weight = paddle.nn.Linear(6, 3, weight_attr=paddle.nn.initializer.KaimingUniform()).weight
        >>> bool((abs(weight.numpy()) <= 1.0).all())
        True
    """

    def __init__(self, fan_in: float | None = None) -> None:
        super().__init__(uniform=True, fan_in=fan_in, seed=0)
