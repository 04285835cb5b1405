"""Samplers: the order in which the samples of a map-style dataset are read."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import numpy as np

__all__ = ["Sampler", "SequenceSampler", "RandomSampler", "WeightedRandomSampler"]


class Sampler:
    """Base of all samplers: a subclass implements `__iter__`, which yields indices, and `__len__`.

    Examples:
        >>> from paddle.io import Sampler
        >>> class Every(Sampler):
        ...     def __init__(self, data_source, step):
        ...         super().__init__(data_source)
        ...         self.indices = range(0, len(data_source), step)
        ...     def __iter__(self):
        ...         yield from self.indices
        ...     def __len__(self):
        ...         return len(self.indices)
        >>> list(Every("abcde", step=2))
        [0, 2, 4]
    """

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"'__iter__' not implement in class {type(self).__name__}")

    # No __len__ here: a sampler over an IterableDataset has none.


class SequenceSampler(Sampler):
    """The indices 0, 1, ... len(data_source) - 1.

    Examples:
        >>> import paddle
        >>> list(paddle.io.SequenceSampler(range(3)))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        super().__init__(data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Indices in random order, drawn by numpy's global generator (`np.random.seed` fixes them).

    Args:
        data_source: anything with a length.
        replacement: whether an index may be drawn more than once.
        num_samples: number of draws, only with `replacement` (default: len(data_source)).
        generator: an iterator that yields the indices instead.

    TypeError for a `replacement` that is not a bool, ValueError for `num_samples` without replacement or not positive.

    Examples:
        >>> import paddle
        >>> sorted(paddle.io.RandomSampler(range(5)))
        [0, 1, 2, 3, 4]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        super().__init__(data_source)
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement must be a bool, got {replacement!s:.200}")
        if num_samples is not None and not replacement:
            raise ValueError("RandomSampler: num_samples can only be given with replacement=True")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"RandomSampler: num_samples must be a positive int, got {self.num_samples!s:.200}")

    @property
    def num_samples(self) -> int:
        """Number of indices per pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if self.generator:
            for _ in range(self.num_samples):
                try:
                    yield next(self.generator)
                except StopIteration:
                    return
            return
        n = len(self.data_source)
        # The same numpy calls as 2.0.2, so that a seed gives the same order.
        count = self.num_samples if self.replacement else n
        yield from np.random.choice(np.arange(n), count, replace=self.replacement).tolist()

    def __len__(self) -> int:
        return self.num_samples


def _weighted_sample(weights: Any, num_samples: int, replacement: bool = True) -> np.ndarray:
    if isinstance(weights, (list, tuple)):
        weights = np.array(weights)
    elif not isinstance(weights, np.ndarray) and callable(getattr(weights, "numpy", None)):
        weights = weights.numpy()
    assert isinstance(weights, np.ndarray), (
        "WeightedRandomSampler: weights must be a Tensor, an ndarray, a list or a tuple"
    )
    assert weights.ndim <= 2, "WeightedRandomSampler: weights must have 1 or 2 dimensions"
    weights = weights.reshape((-1, weights.shape[-1]))
    assert np.all(weights >= 0.0), "WeightedRandomSampler: no weight may be negative"
    assert not np.any(np.isinf(weights)), "WeightedRandomSampler: no weight may be infinite"
    non_zeros = np.sum(weights > 0.0, axis=1)
    assert np.all(non_zeros > 0), "WeightedRandomSampler: a row has no positive weight"
    if not replacement:
        assert np.all(non_zeros >= num_samples), (
            "WeightedRandomSampler: replacement=False needs at least num_samples positive weights"
        )
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.array([np.random.choice(weights.shape[1], num_samples, replacement, row) for row in weights])


class WeightedRandomSampler(Sampler):
    """Draws `num_samples` indices with probabilities proportional to `weights`.

    Args:
        weights: Tensor, ndarray, list or tuple of shape [N], or [M, N] for M consecutive sets of draws; not negative or
            infinite, and not all zero (AssertionError on iteration otherwise).
        num_samples: positive int, else ValueError.
        replacement: bool, else ValueError.

    Examples:
        >>> import paddle
        >>> list(paddle.io.WeightedRandomSampler([0.0, 1.0], 3))
        [1, 1, 1]
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError("WeightedRandomSampler: num_samples must be a positive int")
        if not isinstance(replacement, bool):
            raise ValueError("WeightedRandomSampler: replacement must be a bool")
        super().__init__()
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement

    def __iter__(self) -> Iterator[int]:
        idxs = _weighted_sample(self.weights, self.num_samples, self.replacement)
        return iter(idxs.reshape(-1).tolist())

    def __len__(self) -> int:
        shape = np.shape(self.weights) if isinstance(self.weights, (list, tuple)) else tuple(self.weights.shape)
        return self.num_samples * int(np.prod(shape[:-1], dtype=np.int64))
