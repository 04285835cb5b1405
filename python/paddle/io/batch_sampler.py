"""Batch samplers: the indices of each mini-batch, for one process or distributed over ranks."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from paddle.io.dataset import Dataset, IterableDataset
from paddle.io.sampler import RandomSampler, Sampler, SequenceSampler

__all__ = ["BatchSampler", "DistributedBatchSampler"]


def _group(indices: Iterable[int], batch_size: int, drop_last: bool) -> Iterator[list[int]]:
    batch: list[int] = []
    for idx in indices:
        batch.append(idx)
        if len(batch) == batch_size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch


def _batches(num_samples: int, batch_size: int, drop_last: bool) -> int:
    return num_samples // batch_size if drop_last else -(-num_samples // batch_size)


class _Shuffled:
    """Indices in another random order at each pass, drawn by numpy's global generator."""

    def __init__(self, indices: Sequence[int]) -> None:
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in np.random.permutation(len(self.indices)))

    def __len__(self) -> int:
        return len(self.indices)


class BatchSampler(Sampler):
    """Yields lists of `batch_size` indices of a map-style `dataset` or of a `sampler` (exactly one of them).

    Args:
        dataset: a paddle.io.Dataset, read in order, or with `shuffle` in random order.
        sampler: a paddle.io.Sampler.
        shuffle: bool; only with `dataset`.
        batch_size: positive int.
        drop_last: whether to drop a last incomplete batch.
        indices: a list or tuple of indices, in place of `dataset` and `sampler`, as in 1.8; read in order, or with
            `shuffle` in random order.

    Invalid arguments raise AssertionError, as in 2.0.2.

    Examples:
        >>> import paddle
        >>> list(paddle.io.BatchSampler(sampler=paddle.io.SequenceSampler(range(3)), batch_size=2))
        [[0, 1], [2]]
    """

    def __init__(
        self,
        dataset: Dataset | None = None,
        sampler: Sampler | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
        indices: Sequence[int] | None = None,
    ) -> None:
        self.sampler: Any
        if indices is None and isinstance(sampler, (list, tuple)):
            sampler, indices = None, sampler  # the place of 1.8
        if indices is not None:
            assert dataset is None and sampler is None, "BatchSampler: indices take the place of dataset and sampler"
            assert isinstance(indices, (list, tuple)), (
                f"BatchSampler: indices must be a list or a tuple, got {type(indices)}"
            )
            assert isinstance(shuffle, bool), f"BatchSampler: shuffle must be a bool, got {type(shuffle)}"
            self.sampler = _Shuffled(indices) if shuffle else indices
        elif dataset is None:
            assert sampler is not None, "BatchSampler: one of dataset and sampler must be given"
            assert isinstance(sampler, Sampler), (
                f"BatchSampler: sampler must be a paddle.io.Sampler, got {type(sampler)}"
            )
            assert not shuffle, "BatchSampler: shuffle=True cannot be combined with a sampler"
            self.sampler = sampler
        else:
            assert not isinstance(dataset, IterableDataset), "BatchSampler: an IterableDataset has no indices to sample"
            assert isinstance(dataset, Dataset) or hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"), (
                "BatchSampler: dataset must be a paddle.io.Dataset or have __getitem__ and __len__, got "
                f"{type(dataset)}"
            )
            assert sampler is None, "BatchSampler: dataset and sampler are mutually exclusive"
            assert isinstance(shuffle, bool), f"BatchSampler: shuffle must be a bool, got {type(shuffle)}"
            self.sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)

        assert isinstance(batch_size, int) and batch_size > 0, (
            f"BatchSampler: batch_size must be a positive int, got {batch_size!s:.200}"
        )
        self.batch_size = batch_size
        assert isinstance(drop_last, bool), f"BatchSampler: drop_last must be a bool, got {type(drop_last)}"
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return _group(self.sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return _batches(len(self.sampler), self.batch_size, self.drop_last)  # type: ignore[arg-type]


class _InfiniteIterableSampler:
    """Yields lists of `batch_size` times None forever: an IterableDataset has no indices and no known end."""

    def __init__(self, dataset: IterableDataset, batch_size: int = 1) -> None:
        assert isinstance(dataset, Iterable), "BatchSampler: dataset must be a paddle.io.IterableDataset"
        self.dataset = dataset
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[list[None]]:
        while True:
            yield [None] * self.batch_size


class DistributedBatchSampler(BatchSampler):
    """The batches of one rank: whole batches are assigned to the ranks in turn, and samples are repeated from the start
    so that all ranks have equally many.

    Args:
        dataset: anything with a length.
        batch_size: positive int, per rank.
        num_replicas: number of ranks (default: of the parallel environment).
        rank: this rank (default: of the parallel environment).
        shuffle: whether each epoch has its own order, the same on all ranks (seeded by the epoch).
        drop_last: whether to drop a last incomplete batch.

    Examples:
        >>> import paddle
        >>> data = paddle.io.Subset(range(8), list(range(8)))
        >>> list(paddle.io.DistributedBatchSampler(data, 2, num_replicas=2, rank=1))
        [[2, 3], [6, 7]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        self.dataset = dataset
        assert isinstance(batch_size, int) and batch_size > 0, (
            "DistributedBatchSampler: batch_size must be a positive int"
        )
        self.batch_size = batch_size
        assert isinstance(shuffle, bool), "DistributedBatchSampler: shuffle must be a bool"
        self.shuffle = shuffle
        assert isinstance(drop_last, bool), "DistributedBatchSampler: drop_last must be a bool"
        self.drop_last = drop_last

        if num_replicas is not None:
            assert isinstance(num_replicas, int) and num_replicas > 0, (
                "DistributedBatchSampler: num_replicas must be a positive int"
            )
        if rank is not None:
            assert isinstance(rank, int) and rank >= 0, "DistributedBatchSampler: rank must not be negative"
        self.nranks = _parallel_env("nranks") if num_replicas is None else num_replicas
        self.local_rank = _parallel_env("local_rank") if rank is None else rank

        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def __iter__(self) -> Iterator[list[int]]:
        indices = list(itertools.islice(itertools.cycle(range(len(self.dataset))), self.total_size))
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(indices)
            self.epoch += 1
        if self.nranks > 1:
            indices = self._own(indices)
        return _group(indices, self.batch_size, self.drop_last)

    def _own(self, indices: list[int]) -> list[int]:
        """Full batches are assigned to the ranks in turn; the rest after the last full round is split equally."""
        rest = self.total_size % (self.batch_size * self.nranks)
        share = rest // self.nranks
        own: list[int] = []
        for start in range(self.local_rank * self.batch_size, len(indices) - rest, self.batch_size * self.nranks):
            own.extend(indices[start : start + self.batch_size])
        tail = indices[len(indices) - rest :]
        own.extend(tail[self.local_rank * share : (self.local_rank + 1) * share])
        return own

    def __len__(self) -> int:
        return _batches(self.num_samples, self.batch_size, self.drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which seeds the order if `shuffle` is set."""
        self.epoch = epoch


def _parallel_env(field: str) -> int:
    """The rank or the number of ranks set by `paddle.distributed.launch`."""
    names = {"nranks": ("PADDLE_TRAINERS_NUM", "1"), "local_rank": ("PADDLE_TRAINER_ID", "0")}
    name, default = names[field]
    return int(os.environ.get(name, default))
