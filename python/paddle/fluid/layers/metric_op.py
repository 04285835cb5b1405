"""Metrics of fluid.layers."""

from paddle.static.metric import accuracy

__all__ = ["accuracy"]
