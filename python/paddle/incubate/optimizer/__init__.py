"""paddle.incubate.optimizer: optimizers that wrap others."""

from .lookahead import LookAhead
from .model_average import ModelAverage

__all__ = ["LookAhead", "ModelAverage"]
