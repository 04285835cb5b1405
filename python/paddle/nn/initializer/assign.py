"""Assign: an initializer with given values."""

from __future__ import annotations

from typing import Any

from paddle._basics import numpy as np
from paddle._programs.variable import Variable
from paddle.nn.initializer.base import NumpyArrayInitializer

__all__ = ["Assign"]


class Assign(NumpyArrayInitializer):
    """The elements of `value`, an ndarray, list or Tensor of the parameter's shape; TypeError for other types.

    Examples:
        >>> import paddle
        >>> init = paddle.nn.initializer.Assign([[1.0, 2.0]])
        >>> paddle.nn.Linear(1, 2, weight_attr=init).weight.numpy().tolist()
        [[1.0, 2.0]]
    """

    def __init__(self, value: Any, name: str | None = None) -> None:
        if isinstance(value, list):
            value = np.array(value)
        elif isinstance(value, Variable):
            value = value.numpy()
        elif not isinstance(value, np.ndarray):
            raise TypeError(
                f"The type of 'value' in Assign must be numpy.ndarray, list or Tensor, but received {type(value)}."
            )
        super().__init__(value)
