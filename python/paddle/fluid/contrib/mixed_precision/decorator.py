"""The older place of paddle.static.amp's decorator."""

from paddle.static.amp.decorator import OptimizerWithMixedPrecision as OptimizerWithMixedPrecision
from paddle.static.amp.decorator import decorate

__all__ = ["decorate"]
