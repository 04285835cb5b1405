"""Datasets: map-style and iterable sources of samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from paddle._basics.mode import in_static_mode
from paddle.tensor.random import randperm

__all__ = [
    "Dataset",
    "IterableDataset",
    "TensorDataset",
    "ComposeDataset",
    "ChainDataset",
    "Subset",
    "random_split",
]


class Dataset:
    """A map-style dataset: `dataset[i]` is sample i, `len(dataset)` the number of samples.

    A subclass implements both methods; the base class raises NotImplementedError.

    Examples:
        >>> from paddle.io import Dataset
        >>> class Squares(Dataset):
        ...     def __getitem__(self, idx):
        ...         return idx * idx
        ...     def __len__(self):
        ...         return 4
        >>> Squares()[3]
        9
    """

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError(f"'__getitem__' not implement in class {type(self).__name__}")

    def __len__(self) -> int:
        raise NotImplementedError(f"'__len__' not implement in class {type(self).__name__}")


class _NoLength(RuntimeError, TypeError):
    """The RuntimeError of 2.0.2, which is also a TypeError: list(dataset) treats that as an unknown length."""


class IterableDataset(Dataset):
    """A dataset that is read sequentially: a subclass implements `__iter__`.

    With several workers each iterates over its own copy; `paddle.io.get_worker_info()` identifies the worker, so that
    each copy can yield its part of the samples.

    Examples:
        >>> from paddle.io import IterableDataset
        >>> class Count(IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(Count())
        [0, 1, 2]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"'__iter__' not implement in class {type(self).__name__}")

    # Defined, so that an accidental index or length is distinguished from a missing method.
    def __getitem__(self, idx: Any) -> Any:
        raise RuntimeError(f"'__getitem__' should not be called for IterableDataset {type(self).__name__}")

    def __len__(self) -> int:
        raise _NoLength(f"'__len__' should not be called for IterableDataset {type(self).__name__}")


class TensorDataset(Dataset):
    """Sample i is row i of each of `tensors`, whose shape[0] must be equal. Dygraph mode only.

    Examples:
        >>> import paddle
        >>> data = paddle.io.TensorDataset([paddle.ones([4, 2]), paddle.zeros([4, 1])])
        >>> len(data), len(data[0])
        (4, 2)
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        if in_static_mode():
            raise RuntimeError("TensorDataset requires dygraph mode")
        assert all(tensor.shape[0] == tensors[0].shape[0] for tensor in tensors), (
            "TensorDataset: the tensors differ in their first size"
        )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


def to_list(value: Any) -> list[Any] | None:
    """None stays None, a list or tuple becomes a list, another value a list of one."""
    if value is None:
        return None
    return list(value) if isinstance(value, (list, tuple)) else [value]


class ComposeDataset(Dataset):
    """Combines the fields of several map-style datasets of equal length: sample i has the fields of all samples i.

    Examples:
        >>> import paddle
        >>> class Pairs(paddle.io.Dataset):
        ...     def __getitem__(self, idx):
        ...         return idx, -idx
        ...     def __len__(self):
        ...         return 3
        >>> paddle.io.ComposeDataset([Pairs(), Pairs()])[2]
        (2, -2, 2, -2)
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        assert len(self.datasets) > 0, "ComposeDataset: datasets has no entry"
        for dataset in self.datasets:
            assert isinstance(dataset, Dataset), "ComposeDataset: every entry must be a paddle.io.Dataset"
            assert not isinstance(dataset, IterableDataset), "ComposeDataset: an IterableDataset has no indices"
            assert len(dataset) == len(self.datasets[0]), "ComposeDataset: the datasets differ in length"

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: Any) -> tuple[Any, ...]:
        fields: list[Any] = []
        for dataset in self.datasets:
            fields.extend(to_list(dataset[idx]) or ())
        return tuple(fields)


class ChainDataset(IterableDataset):
    """Concatenates several iterable datasets.

    Examples:
        >>> import paddle
        >>> class Count(paddle.io.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(paddle.io.ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[IterableDataset]) -> None:
        self.datasets = list(datasets)
        assert len(self.datasets) > 0, "ChainDataset: datasets has no entry"
        for dataset in self.datasets:
            assert isinstance(dataset, IterableDataset), "ChainDataset: every entry must be a paddle.io.IterableDataset"

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class Subset(Dataset):
    """The samples of `dataset` at `indices`, in that order.

    Examples:
        >>> import paddle
        >>> list(paddle.io.Subset(dataset=range(1, 4), indices=[0, 2]))
        [1, 3]
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int], generator: Any = None) -> list[Subset]:
    """Splits `dataset` randomly into disjoint subsets of the given `lengths`.

    The permutation is drawn by `paddle.randperm`, so that `paddle.seed` fixes it; `generator` is ignored, as in 2.0.2.
    Raises ValueError if the lengths do not add up to `len(dataset)`.

    Examples:
        >>> import paddle
        >>> a, b = paddle.io.random_split(range(10), [3, 7])
        >>> sorted(list(a) + list(b)) == list(range(10))
        True
    """
    if sum(lengths) != len(dataset):
        raise ValueError("random_split: the lengths do not add up to the length of the dataset")
    indices = randperm(sum(lengths)).numpy().tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
