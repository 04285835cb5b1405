"""paddle.incubate.optimizer: optimizers around others."""

from .lookahead import LookAhead
from .model_average import ModelAverage

__all__ = ["LookAhead", "ModelAverage"]
