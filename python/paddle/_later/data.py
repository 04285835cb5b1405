"""Data sets and samplers of `paddle.io` in Paddle 2.1 to 2.6."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from paddle.io.dataset import Dataset
from paddle.io.sampler import Sampler

__all__: list[str] = []


class ConcatDataset(Dataset):
    """The samples of several map-style datasets, one after the other.

    Args:
        datasets (iterable): at least one; none may be an IterableDataset.

    Examples:
        >>> import paddle
        >>> both = paddle.io.ConcatDataset([[1, 2], [3]])
        >>> len(both), both[2], both[-1]
        (3, 3, 3)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets must not be empty")
        for dataset in self.datasets:
            if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
                raise AssertionError(
                    f"ConcatDataset: {type(dataset).__name__} has no indices; datasets must be map-style"
                )
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        size = len(self)
        if not -size <= idx < size:
            raise IndexError(f"ConcatDataset: index {idx} is outside of {size} samples")
        idx %= size
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]


class SubsetRandomSampler(Sampler):
    """The given indices in random order, drawn by numpy's global generator.

    Args:
        indices (sequence): at least one.

    Examples:
        >>> import paddle
        >>> sorted(paddle.io.SubsetRandomSampler([3, 5]))
        [3, 5]
    """

    def __init__(self, indices: Sequence[int]) -> None:
        if len(indices) == 0:
            raise ValueError("SubsetRandomSampler: indices must not be empty")
        super().__init__()
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in np.random.permutation(len(self.indices)))

    def __len__(self) -> int:
        return len(self.indices)
