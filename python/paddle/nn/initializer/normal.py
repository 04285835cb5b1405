"""Normal and truncated normal initializers."""

from __future__ import annotations

from paddle.nn.initializer.base import NormalInitializer, TruncatedNormalInitializer

__all__ = ["Normal", "TruncatedNormal"]


class Normal(NormalInitializer):
    """Normal with the given mean and standard deviation.

    Examples:
        >>> import paddle
        >>> linear = paddle.nn.Linear(2, 3, weight_attr=paddle.nn.initializer.Normal(mean=0.0, std=2.0))
        >>> linear.weight.shape
        [2, 3]
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        assert mean is not None, "Normal: mean must be given"
        assert std is not None, "Normal: std must be given"
        super().__init__(loc=mean, scale=std, seed=0)


class TruncatedNormal(TruncatedNormalInitializer):
    """Normal with the given mean and standard deviation, within two deviations of the mean.

    Examples:
        >>> import paddle
        >>> linear = paddle.nn.Linear(2, 3, weight_attr=paddle.nn.initializer.TruncatedNormal(std=0.5))
        >>> bool((abs(linear.weight.numpy()) <= 1.0).all())
        True
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        assert mean is not None, "TruncatedNormal: mean must be given"
        assert std is not None, "TruncatedNormal: std must be given"
        super().__init__(loc=mean, scale=std, seed=0)
