"""Quant2Int8MkldnnPass under its module of Paddle 1.x."""

from .mkldnn import Quant2Int8MkldnnPass

__all__ = ["Quant2Int8MkldnnPass"]
