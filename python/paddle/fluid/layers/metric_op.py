"""Metrics of fluid.layers."""

from paddle.static.metric import accuracy, auc

__all__ = ["accuracy", "auc"]
