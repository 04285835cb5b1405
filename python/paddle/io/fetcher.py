"""Fetchers: read and collate one batch of a dataset, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _DatasetKind:
    """How a dataset is read: by index or sequentially."""

    MAP = 0
    ITER = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collate_batch: bool, collate_fn: Callable[[Any], Any] | None, drop_last: bool
    ) -> _DatasetFetcher:
        if kind == _DatasetKind.MAP:
            return _MapDatasetFetcher(dataset, auto_collate_batch, collate_fn, drop_last)
        if kind == _DatasetKind.ITER:
            return _IterableDatasetFetcher(dataset, auto_collate_batch, collate_fn, drop_last)
        raise NotImplementedError(f"unknown Dataset kind {kind}")


class _DatasetFetcher:
    """Base of the two fetchers: `fetch(indices)` returns a collated batch."""

    def __init__(
        self, dataset: Any, auto_collate_batch: bool, collate_fn: Callable[[Any], Any] | None, drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collate_batch = auto_collate_batch
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, batch_indices: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not implement fetch")

    def _collate(self, data: Any) -> Any:
        try:
            return self.collate_fn(data) if self.collate_fn else data
        except StopIteration as error:  # propagated, it would silently end the pass
            raise RuntimeError("collate_fn raised StopIteration") from error


class _IterableDatasetFetcher(_DatasetFetcher):
    """Reads as many samples as there are indices; StopIteration at the end."""

    def __init__(
        self, dataset: Any, auto_collate_batch: bool, collate_fn: Callable[[Any], Any] | None, drop_last: bool
    ) -> None:
        super().__init__(dataset, auto_collate_batch, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)

    def fetch(self, batch_indices: Any) -> Any:
        if not self.auto_collate_batch:
            return self._collate(next(self.dataset_iter))
        data = []
        for _ in batch_indices:
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                break
        if not data or (self.drop_last and len(data) < len(batch_indices)):
            raise StopIteration
        return self._collate(data)


class _MapDatasetFetcher(_DatasetFetcher):
    """Reads the samples at the given indices (or, without automatic collation, the batch at one index)."""

    def fetch(self, batch_indices: Any) -> Any:
        if not self.auto_collate_batch:
            return self._collate(self.dataset[batch_indices])
        read = getattr(self.dataset, "__getitems__", None)  # several samples at once
        return self._collate([self.dataset[idx] for idx in batch_indices] if read is None else read(batch_indices))
