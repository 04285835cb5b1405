"""The formulas of the learning rate decays of 1.x, for numbers or tensors, shared by both modes."""

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
    """(learning_rate - end) * (1 - step / span)^power + end."""
    return (learning_rate - end) * (1 - step / span) ** power + end


def cosine(learning_rate: Any, epoch: Any, epochs: Any) -> Any:
    """Half a cosine wave over all epochs."""
    return learning_rate * 0.5 * (_ops.cos(epoch * math.pi / epochs) + 1)


def noam(learning_rate: Any, d_model: Any, falling: Any, rising: Any) -> Any:
    """learning_rate * d_model^-0.5 * min(falling, rising)."""
    return learning_rate * (d_model**-0.5) * _ops.elementwise_min(falling, rising)
