"""The learning rates of 1.x, of numbers or tensors: what Programs and the objects of dygraph mode compute alike."""

from __future__ import annotations

import math
from typing import Any

from paddle import _ops

__all__: list[str] = []


def exponential(learning_rate: Any, decay_rate: Any, periods: Any) -> Any:
    """learning_rate * decay_rate^periods."""
    return learning_rate * (decay_rate**periods)


def natural_exp(learning_rate: Any, decay_rate: Any, periods: Any) -> Any:
    """learning_rate * exp(-decay_rate * periods)."""
    return learning_rate * _ops.exp(-1 * decay_rate * periods)


def inverse_time(learning_rate: Any, decay_rate: Any, periods: Any) -> Any:
    """learning_rate / (1 + decay_rate * periods)."""
    return learning_rate / (1 + decay_rate * periods)


def polynomial(learning_rate: Any, step: Any, span: Any, end: Any, power: Any) -> Any:
    """From `learning_rate` to `end` in `span` steps, by the part that is left to that power."""
    return (learning_rate - end) * (1 - step / span) ** power + end


def cosine(learning_rate: Any, epoch: Any, epochs: Any) -> Any:
    """Half a cosine wave over the epochs."""
    return learning_rate * 0.5 * (_ops.cos(epoch * math.pi / epochs) + 1)


def noam(learning_rate: Any, d_model: Any, falling: Any, rising: Any) -> Any:
    """The lower of both rates, for a model of width `d_model`."""
    return learning_rate * (d_model**-0.5) * _ops.elementwise_min(falling, rising)
