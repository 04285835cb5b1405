"""The constant initializer."""

from __future__ import annotations

from paddle.nn.initializer.base import ConstantInitializer

__all__ = ["Constant"]


class Constant(ConstantInitializer):
    """Every element is `value`; ValueError for None.

    Examples:
        >>> import paddle
        >>> linear = paddle.nn.Linear(2, 2, weight_attr=paddle.nn.initializer.Constant(0.5))
        >>> linear.weight.numpy().tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """

    def __init__(self, value: float = 0.0) -> None:
        if value is None:
            raise ValueError("Constant: value must be given")
        super().__init__(value=value, force_cpu=False)
