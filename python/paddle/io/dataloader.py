"""DataLoader: batches from a dataset, read by this process or by worker processes."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from paddle._basics.flags import is_18
from paddle._basics.mode import in_static_mode
from paddle.io.batch_sampler import BatchSampler, _InfiniteIterableSampler
from paddle.io.collate import by_name, default_collate_fn, to_eager, to_lod_tensors
from paddle.io.dataset import Dataset
from paddle.io.fetcher import _DatasetKind
from paddle.io.generator import DatasetLoader, DygraphGeneratorLoader, GeneratorLoader, loader_of_mode
from paddle.io.places import place_list
from paddle.io.rows import as_dataset
from paddle.io.workers import WorkerPool

__all__ = ["DataLoader"]


class _NoLength(ValueError, TypeError):
    """The ValueError of 2.0.2, which is also a TypeError: list(loader) treats that as an unknown length."""


class DataLoader:
    """Iterates over the mini-batches of a dataset.

    Args:
        dataset: a paddle.io.Dataset or anything with ``__getitem__`` and ``__len__`` (read by index: a list, a Hugging
            Face dataset; rows of Arrow, pandas and polars tables are dicts), or an IterableDataset or other iterable
            that can start again (read in its own order).
        feed_list: the Variables fed by the fields, in order; required in static mode with return_list=False.
        places: a place or a list of places (default: the current one). With several places an iteration yields one
            batch for each; an incomplete set of batches at the end is dropped.
        return_list: static mode only: yield lists of fields (the default) instead of dicts from variable names to
            fields (the default with FLAGS_compat=1.8).
        batch_sampler: yields lists of indices; replaces `batch_size`, `shuffle` and `drop_last`.
        batch_size: samples per batch; None if the dataset's items are batches.
        shuffle: whether to read in random order, drawn by numpy's global generator.
        drop_last: whether to drop a last incomplete batch.
        collate_fn: converts a list of samples to a batch (default: stacks each field along a new axis 0).
        num_workers: number of reader processes (0: this process reads). They are forked for each pass, or with
            `persistent_workers` for the first one.
        use_buffer_reader: ignored; each worker always reads `prefetch_factor` batches ahead.
        use_shared_memory: whether workers pass arrays in shared memory or through a socket.
        timeout: seconds without a batch after which RuntimeError names the worker; 0: no limit.
        worker_init_fn: called with the worker's id in each worker before it reads. The generators of Python, numpy and
            paddle are seeded before, with a number that differs between workers and passes (`get_worker_info().seed`)
            and follows from numpy's global generator, which is not advanced.
        persistent_workers: whether the workers live as long as the loader; one pass runs at a time.
        prefetch_factor: batches that each worker reads ahead.

    In dygraph mode an iteration yields a list of Tensors, one per field (dicts and nested lists keep their structure).
    An exception in a worker is re-raised here with its type and the worker's traceback; a worker that dies raises
    RuntimeError.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> class Squares(paddle.io.Dataset):
        ...     def __getitem__(self, idx):
        ...         return np.float32([idx]), np.float32([idx * idx])
        ...     def __len__(self):
        ...         return 5
        >>> for x, y in paddle.io.DataLoader(Squares(), batch_size=2, drop_last=True):
        ...     print(x.shape, y.numpy().ravel())
        [2, 1] [0. 1.]
        [2, 1] [4. 9.]
    """

    def __init__(
        self,
        dataset: Dataset,
        feed_list: list[Any] | tuple[Any, ...] | None = None,
        places: Any = None,
        return_list: bool | None = None,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        persistent_workers: bool = False,
        prefetch_factor: int = 2,
    ) -> None:
        self.return_list = return_list = not is_18() if return_list is None else return_list
        self.collate_fn = collate_fn
        self.use_buffer_reader = use_buffer_reader
        self.worker_init_fn = worker_init_fn

        dataset, iterable = as_dataset(dataset, "DataLoader")
        self.dataset = dataset
        if not return_list and in_static_mode():
            assert feed_list is not None, "DataLoader: return_list=False needs a feed_list"
        self.feed_list = feed_list
        self.places = place_list(places)

        assert num_workers >= 0, "num_workers should be a non-negative value"
        if num_workers > 0 and sys.platform in ("darwin", "win32"):
            warnings.warn(
                "DataLoader: num_workers must be 0 on macOS and Windows",
                stacklevel=2,
            )
            num_workers = 0
        self.num_workers = num_workers
        self.use_shared_memory = use_shared_memory and num_workers > 0
        assert timeout >= 0, "DataLoader: timeout must not be negative"
        self.timeout = timeout

        if not isinstance(prefetch_factor, int) or prefetch_factor < 1:
            raise ValueError(f"DataLoader: prefetch_factor must be a positive int, got {prefetch_factor!s:.200}")
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = bool(persistent_workers) and num_workers > 0
        self._pool: Any = None
        self._passes = 0

        self.dataset_kind = _DatasetKind.ITER if iterable else _DatasetKind.MAP
        if iterable and shuffle:
            raise ValueError(f"IterableDataset not support shuffle, but got shuffle={shuffle}")
        if iterable and batch_sampler is not None:
            raise ValueError("DataLoader: an IterableDataset cannot be combined with a batch_sampler")

        self.batch_size: int | None = None
        self.batch_sampler: Any = None
        self.drop_last = drop_last
        if batch_sampler is not None:
            assert batch_size == 1 and not shuffle and not drop_last, (
                "DataLoader: batch_size, shuffle and drop_last cannot be combined with batch_sampler"
            )
            self.batch_sampler = batch_sampler
        elif batch_size is not None:
            assert batch_size > 0, "DataLoader: batch_size must be positive, or None without a batch_sampler"
            self.batch_size = batch_size
            if iterable:
                self.batch_sampler = _InfiniteIterableSampler(dataset, batch_size)  # type: ignore[arg-type]
            else:
                self.batch_sampler = BatchSampler(
                    dataset=dataset, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last
                )
        self.auto_collate_batch = self.batch_sampler is not None

    def __len__(self) -> int:
        if self.dataset_kind == _DatasetKind.ITER:
            raise _NoLength("the loader of an IterableDataset has no length")
        return len(self.batch_sampler) if self.auto_collate_batch else len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        return _DataLoaderIterMultiProcess(self) if self.num_workers else _DataLoaderIterSingleProcess(self)

    def __call__(self) -> Iterator[Any]:
        return self.__iter__()

    @staticmethod
    def from_generator(
        feed_list: list[Any] | tuple[Any, ...] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> DygraphGeneratorLoader | GeneratorLoader:
        """A loader for a Python generator, which a thread reads ahead.

        Set the source by `set_sample_generator`, `set_sample_list_generator` or `set_batch_generator`.

        Args:
            feed_list: static mode: the Variables fed by the fields.
            capacity: number of batches to read ahead; required.
            use_double_buffer: ignored.
            iterable: False in static mode: the Program reads the data itself between start() and reset().
            return_list: static mode: lists of fields instead of dicts.
            use_multiprocess: dygraph: run the generator in a separate process.
            drop_last: static mode: whether to drop an incomplete set of batches for several places.

        Examples:
            >>> import numpy as np
            >>> import paddle
            >>> loader = paddle.io.DataLoader.from_generator(capacity=2, return_list=True)
            >>> def batches():
            ...     yield np.zeros([4, 2], 'float32'), np.ones([4, 1], 'int64')
            >>> for x, y in loader.set_batch_generator(batches):
            ...     print(x.shape, y.shape)
            [4, 2] [4, 1]
        """
        return loader_of_mode(
            feed_list, capacity, use_double_buffer, iterable, return_list, use_multiprocess, drop_last
        )

    @staticmethod
    def from_dataset(dataset: Any, places: Any, drop_last: bool = True) -> DatasetLoader:
        """A loader for an InMemoryDataset or QueueDataset of paddle.distributed, in static mode."""
        return DatasetLoader(dataset, places, drop_last)


class _DataLoaderIterBase:
    """One pass over a DataLoader; `_fetch` returns a batch of arrays or raises StopIteration."""

    #: whether the pass alone has the arrays of a batch
    _owned = False

    def __init__(self, loader: DataLoader) -> None:
        self._places = loader.places
        self._feed_list = loader.feed_list or []
        self._return_list = loader.return_list
        self._dataset = loader.dataset
        self._batch_sampler = loader.batch_sampler
        self._done = False
        # Threads may share a pass: each batch is returned to one of them.
        self._turn = threading.RLock()
        self._collate_fn: Callable[[Any], Any] | None
        if loader.auto_collate_batch:
            self._collate_fn = loader.collate_fn or default_collate_fn
            self._sampler_iter = iter(loader.batch_sampler)
        else:
            self._collate_fn = loader.collate_fn
            if loader.dataset_kind == _DatasetKind.ITER:
                self._sampler_iter = iter(_InfiniteIterableSampler(loader.dataset, 1))  # type: ignore[arg-type]
            else:
                self._sampler_iter = iter(range(len(loader.dataset)))

    def _fetch(self) -> Any:
        raise NotImplementedError

    def _close(self) -> None:
        self._done = True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __next__(self) -> Any:
        with self._turn:
            if self._done:
                raise StopIteration
            try:
                if not in_static_mode():
                    return to_eager(self._fetch(), self._places[0], self._owned)
                group = [to_lod_tensors(self._fetch(), place) for place in self._places]
            except BaseException:  # the end, an error, or Ctrl-C: the pass is over
                self._close()
                raise
        if not self._return_list:
            return [by_name(fields, self._feed_list) for fields in group]
        return group[0] if len(group) == 1 else group

    def next(self) -> Any:
        """The same as `__next__`, as in 2.0.2."""
        return self.__next__()


class _DataLoaderIterSingleProcess(_DataLoaderIterBase):
    """Reads in this process, on demand."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._kind = loader.dataset_kind
        self._owned = self._collate_fn is default_collate_fn
        self._fetcher = _DatasetKind.create_fetcher(
            loader.dataset_kind, loader.dataset, loader.auto_collate_batch, self._collate_fn, loader.drop_last
        )

    def _fetch(self) -> Any:
        indices = next(self._sampler_iter)
        try:
            return self._fetcher.fetch(indices)
        except StopIteration as error:
            if self._kind == _DatasetKind.ITER:
                raise
            # Propagated, it would silently end the caller's loop.
            raise RuntimeError(f"the dataset raised StopIteration for the samples {indices}") from error


class _DataLoaderIterMultiProcess(_DataLoaderIterBase):
    """Reads by worker processes, which end with the pass or (persistent ones) with the loader."""

    _owned = True

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._pool: WorkerPool | None = None
        assert loader.num_workers > 0, f"DataLoader: num_workers must be positive here, got {loader.num_workers}"
        self._persistent = loader.persistent_workers
        seed = _pass_seed(loader._passes)
        loader._passes += 1
        if self._persistent and loader._pool is not None and loader._pool.usable:
            self._pool = loader._pool
            self._pool.begin(self._sampler_iter, seed)
        else:
            self._pool = WorkerPool(loader, self._collate_fn, self._sampler_iter, seed)
            if self._persistent:
                loader._pool = self._pool
                weakref.finalize(loader, self._pool.close)

    def _fetch(self) -> Any:
        assert self._pool is not None
        if self._pool._indices is not self._sampler_iter:
            raise RuntimeError(
                "DataLoader: another pass has begun; with persistent_workers=True one pass runs at a time"
            )
        return self._pool.get()

    def _close(self) -> None:
        super()._close()
        if self._pool is not None and not self._persistent:
            self._pool.close()

    def __del__(self) -> None:
        # If the constructor failed, there is no pool.
        if getattr(self, "_pool", None) is not None:
            self._close()


def _pass_seed(number: int) -> int:
    """A seed that follows from the state of numpy's global generator and the number of the pass."""
    copy = np.random.RandomState()
    copy.set_state(np.random.get_state())
    return (int(copy.randint(2**31)) + 1000003 * number) % 2**31
