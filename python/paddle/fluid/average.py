"""fluid.average: WeightedAverage."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

__all__ = ["WeightedAverage"]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, np.ndarray) and value.shape == (1,))


class WeightedAverage:
    """The weighted mean of values, such as the losses of batches weighted by the batch sizes.

    Examples:
        >>> import warnings
        >>> import paddle.fluid as fluid
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     mean = fluid.average.WeightedAverage()
        >>> mean.add(2.0, weight=1)
        >>> mean.add(4.0, weight=3)
        >>> mean.eval()
        3.5
    """

    def __init__(self) -> None:
        warnings.warn("WeightedAverage is deprecated, please use fluid.metrics.Accuracy instead", stacklevel=2)
        self.reset()

    def reset(self) -> None:
        """Discards all values."""
        self.numerator: Any = None
        self.denominator: Any = None

    def add(self, value: Any, weight: Any) -> None:
        """Adds a value.

        Args:
            value (int|float|numpy.ndarray): the value.
            weight (int|float|numpy.ndarray): its weight.

        Raises:
            ValueError: for other types.
        """
        if not _is_number(value) and not isinstance(value, np.ndarray):
            raise ValueError(f"The 'value' must be a number(int, float) or a numpy ndarray, got {type(value)}")
        if not _is_number(weight):
            raise ValueError(f"The 'weight' must be a number(int, float), got {type(weight)}")
        self.numerator = value * weight if self.numerator is None else self.numerator + value * weight
        self.denominator = weight if self.denominator is None else self.denominator + weight

    def eval(self) -> Any:
        """The mean of the added values; ValueError if there is none."""
        if self.numerator is None:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        return self.numerator / self.denominator
