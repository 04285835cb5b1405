"""QuantInt8MkldnnPass under its module of Paddle 1.x."""

from .mkldnn import QuantInt8MkldnnPass

__all__ = ["QuantInt8MkldnnPass"]
