"""Losses of fluid.dygraph: those of paddle.nn with the arguments of 1.x."""

from __future__ import annotations

from typing import Any

from paddle.nn import BCELoss as _BCELoss
from paddle.nn import L1Loss as _L1Loss
from paddle.nn import MSELoss as MSELoss
from paddle.nn import NLLLoss as _NLLLoss

__all__ = ["BCELoss", "L1Loss", "MSELoss", "NLLLoss"]


class BCELoss(_BCELoss):
    """Binary cross entropy of probabilities; the arguments are those of :class:`paddle.nn.BCELoss`."""

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)


class L1Loss(_L1Loss):
    """abs(input - label); the arguments are those of :class:`paddle.nn.L1Loss`."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)


class NLLLoss(_NLLLoss):
    """Negative log likelihood; the arguments are those of :class:`paddle.nn.NLLLoss`."""

    def __init__(self, weight: Any = None, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__(weight, ignore_index, reduction)
