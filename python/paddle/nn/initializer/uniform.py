"""The uniform initializer."""

from __future__ import annotations

from paddle.nn.initializer.base import UniformInitializer

__all__ = ["Uniform"]


class Uniform(UniformInitializer):
    """Uniform in [low, high).

    Examples:
        >>> import paddle
        >>> linear = paddle.nn.Linear(2, 3, weight_attr=paddle.nn.initializer.Uniform(low=0.0, high=0.5))
        >>> bool((linear.weight.numpy() >= 0.0).all())
        True
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        assert low is not None, "Uniform: low must be given"
        assert high is not None, "Uniform: high must be given"
        assert high >= low, "Uniform: high must not be below low"
        super().__init__(low=low, high=high, seed=0, diag_num=0, diag_step=0, diag_val=1.0)
