"""Datasets of other libraries as sequences of samples, for DataLoader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paddle.io.batch_sampler import BatchSampler
from paddle.io.dataset import Dataset, IterableDataset
from paddle.io.sampler import Sampler

__all__: list[str] = []


class TableRows(Dataset):
    """The rows of a table (Arrow, pandas, polars) as dicts from column to value."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, idx: int) -> Any:
        n = len(self.table)
        if not -n <= idx < n:
            raise IndexError(f"row {idx} of a table of {n} rows")
        return self.__getitems__([idx % n])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The rows at several indices, read at once."""
        table, indices = self.table, list(indices)
        if hasattr(table, "iloc"):
            return table.iloc[indices].to_dict("records")
        if hasattr(table, "to_pylist"):
            return table.take(indices).to_pylist()
        # Row by row: other reads of polars wait for its threads, which a forked worker does not have.
        return [table.row(i, named=True) for i in indices]


def _is_table(data: Any) -> bool:
    module = getattr(type(data), "__module__", "").partition(".")[0]
    names = {"pyarrow": ("Table", "RecordBatch"), "pandas": ("DataFrame",), "polars": ("DataFrame",)}
    return type(data).__name__ in names.get(module, ())


def as_dataset(data: Any, function: str) -> tuple[Any, bool]:
    """What DataLoader reads, and whether it has its own order (no indices).

    Raises:
        AssertionError: for an object that is neither a sequence of samples nor an iterable that can start again.
    """
    if _is_table(data):
        return TableRows(data), False
    if isinstance(data, Dataset):
        return data, isinstance(data, IterableDataset)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (str, bytes, Mapping)):
        return data, False
    restarts = isinstance(data, Iterable) and not isinstance(
        data, (Iterator, str, bytes, Mapping, BatchSampler, Sampler)
    )
    assert restarts, (
        f"{function}: dataset must be a paddle.io.Dataset or have __getitem__ and __len__, or be an iterable that can "
        f"start again, got {type(data)}"
    )
    return data, True
