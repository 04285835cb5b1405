"""Loaders for Python generators, which a thread reads ahead."""

from __future__ import annotations

import multiprocessing
import operator
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paddle._basics.dtypes import convert_dtype
from paddle._basics.mode import in_static_mode
from paddle._basics.place import CPUPlace
from paddle.io.channel import Channel
from paddle.io.collate import _is_tensor, as_array, by_name, to_eager, to_lod_tensors
from paddle.io.places import place_list
from paddle.io.worker import _die_with_parent, _WorkerError
from paddle.io.workers import _how_it_ended
from paddle.static.py_reader import attach_source

_keep_order = True
_pinned_memory: bool | None = None


def keep_data_loader_order(*args: bool) -> bool | None:
    """Sets whether batches keep the generator's order, or returns the setting. The order is always kept."""
    global _keep_order
    if not args:
        return _keep_order
    assert len(args) == 1 and isinstance(args[0], bool)
    _keep_order = args[0]
    return None


def use_pinned_memory(*args: bool) -> bool | None:
    """Sets whether batches for a GPU use pinned memory, or returns the setting (None: unset)."""
    global _pinned_memory
    if not args:
        return _pinned_memory
    assert len(args) == 1 and isinstance(args[0], bool)
    _pinned_memory = args[0]
    return None


class _Reader:
    """A thread that runs a source at most `capacity` batches ahead of the consumer; errors are delivered in order."""

    def __init__(self, source: Callable[[], Iterable[Any]], capacity: int) -> None:
        self._items: deque[Any] = deque()
        self._change = threading.Condition()
        self._capacity = capacity
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(source,), name="paddle-DataLoader", daemon=True)
        self._thread.start()

    def _run(self, source: Callable[[], Iterable[Any]]) -> None:
        try:
            for item in source():
                with self._change:
                    while len(self._items) >= self._capacity and not self._closed:
                        self._change.wait()
                    if self._closed:
                        break
                    self._items.append(item)
                    self._change.notify_all()
        except BaseException as error:  # raised again in get()
            self._error = error
        finally:
            with self._change:
                self._ended = True
                self._change.notify_all()

    def get(self) -> Any:
        """The next batch; after the last one the source's exception or StopIteration."""
        with self._change:
            while not self._items and not self._ended:
                self._change.wait()
            if self._items:
                item = self._items.popleft()
                self._change.notify_all()
                return item
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def size(self) -> int:
        """Number of batches that are ready."""
        return len(self._items)

    def close(self) -> None:
        """Ends the thread after its current batch."""
        with self._change:
            self._closed = True
            self._items.clear()
            self._change.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _process_main(there: Channel, source: Callable[[], Iterable[Any]]) -> None:
    signal.signal(signal.SIGINT, lambda signum, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with_parent()
    try:
        for batch in source():
            there.send((True, [_portable_field(field) for field in batch]))
        there.send((False, None))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the reader has closed the channel
    except Exception as error:
        there.send((False, _WorkerError(0, error)))


def _portable_field(field: Any) -> Any:
    return field.numpy() if _is_tensor(field) else as_array(field)


def _in_process(source: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """The batches of a source that runs in a separate process."""
    here, there = Channel.pair(use_shared_memory=True)
    process = multiprocessing.get_context("fork").Process(target=_process_main, args=(there, source), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    there.drop()
    try:
        while True:
            try:
                more, batch = here.receive()
            except (EOFError, ConnectionResetError):
                process.join(1.0)
                raise RuntimeError(
                    f"DataLoader reader process {process.pid} {_how_it_ended(process.exitcode)}"
                ) from None
            if isinstance(batch, _WorkerError):
                batch.reraise()
            if not more:
                return
            yield batch
    finally:
        here.close()
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()


def _slots(reader: Callable[[], Iterable[Any]]) -> Callable[[], Iterator[list[list[Any]]]]:
    """Converts lists of samples to lists of fields."""

    def batches() -> Iterator[list[list[Any]]]:
        for samples in reader():
            yield [list(field) for field in zip(*samples, strict=True)]

    return batches


def _batched(
    reader: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool
) -> Callable[[], Iterator[list[Any]]]:
    def batches() -> Iterator[list[Any]]:
        batch: list[Any] = []
        for sample in reader():
            batch.append(sample)
            if len(batch) == batch_size:
                yield batch
                batch = []
        if batch and not drop_last:
            yield batch

    return batches


class DataLoaderBase:
    """Base of the loaders that are their own iterators."""

    def __init__(self) -> None:
        self._places: list[Any] | None = None

    def __call__(self) -> DataLoaderBase:
        return self

    def next(self) -> Any:
        """The same as `__next__`, as in 2.0.2."""
        return self.__next__()

    def __iter__(self) -> DataLoaderBase:
        raise NotImplementedError(f"'__iter__' not implement in class {type(self).__name__}")

    def __next__(self) -> Any:
        raise NotImplementedError(f"'__next__' not implement in class {type(self).__name__}")

    @classmethod
    def _check_input_array(cls, item: Any) -> Any:
        return as_array(item)


class _ThreadedLoader(DataLoaderBase):
    """Base of the two generator loaders: the source, and the thread that reads it."""

    def __init__(self, capacity: int | None) -> None:
        super().__init__()
        if not capacity:
            raise ValueError("Please give value to capacity.")
        if operator.index(capacity) < 1:  # otherwise no batch would ever be read
            raise ValueError(f"capacity must be the number of batches to read ahead, got {capacity}")
        self._capacity = capacity
        self._source: Callable[[], Iterable[Any]] | None = None
        self._reader: _Reader | None = None
        self._iterable = True

    @property
    def queue(self) -> Any:
        """The batches that are ready, during a pass."""
        return self._reader

    @property
    def iterable(self) -> bool:
        """Whether the loader is read by a for loop."""
        return self._iterable

    def _begin(self, source: Callable[[], Iterable[Any]]) -> None:
        self._stop()
        self._reader = _Reader(source, self._capacity)

    def _reset(self) -> None:
        """Ends the pass."""
        self._stop()

    def _stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _get(self) -> Any:
        if self._reader is None:
            raise StopIteration
        try:
            return self._reader.get()
        except BaseException:  # the end, an error, or Ctrl-C
            self._stop()
            raise

    def __del__(self) -> None:
        if getattr(self, "_reader", None) is not None:
            self._stop()

    def set_sample_generator(
        self, reader: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool = True, places: Any = None
    ) -> _ThreadedLoader:
        """Reads samples from `reader()`, each a list or tuple of fields, and groups `batch_size` of them into a batch.

        `drop_last` drops a last incomplete batch. Returns the loader.
        """
        assert batch_size > 0, "batch_size must be positive"
        return self.set_sample_list_generator(_batched(reader, batch_size, drop_last), places)

    def set_sample_list_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> _ThreadedLoader:
        """Reads batches from `reader()`, each a list of samples. Returns the loader."""
        return self.set_batch_generator(_slots(reader), places)

    def set_batch_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> _ThreadedLoader:
        """Reads batches from `reader()`, each a list or tuple of fields. Returns the loader."""
        raise NotImplementedError(f"'set_batch_generator' not implement in class {type(self).__name__}")


class DygraphGeneratorLoader(_ThreadedLoader):
    """The loader of `DataLoader.from_generator` in dygraph mode: iterates over lists of Tensors."""

    def __init__(
        self,
        feed_list: Any = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = True,
        use_multiprocess: bool = False,
    ) -> None:
        super().__init__(capacity)
        self._feed_list = feed_list
        if not iterable:
            warnings.warn(
                "DygraphGeneratorLoader supports only iterable=True: iterable=False is ignored",
                stacklevel=3,
            )
        if not return_list:
            warnings.warn(
                "a DygraphGeneratorLoader returns lists: return_list=False is ignored",
                stacklevel=3,
            )
        if use_multiprocess and sys.platform in ("darwin", "win32"):
            warnings.warn(
                "DygraphGeneratorLoader: use_multiprocess has no effect on macOS and Windows",
                stacklevel=3,
            )
            use_multiprocess = False
        self._use_multiprocess = use_multiprocess

    def __iter__(self) -> DygraphGeneratorLoader:
        source = self._source
        assert source is not None, "Data source of DataLoader has not set yet"
        self._begin((lambda: _in_process(source)) if self._use_multiprocess else source)
        return self

    def __next__(self) -> Any:
        assert self._places is not None
        fields = self._get()
        try:
            return to_eager([field if _is_tensor(field) else as_array(field) for field in fields], self._places[0])
        except BaseException:
            self._stop()
            raise

    def set_batch_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> DygraphGeneratorLoader:
        """Reads batches from `reader()`, each a list or tuple of fields. Returns the loader."""
        self._source = reader
        self._places = place_list(places)
        assert len(self._places) == 1, "in dygraph mode exactly one place must be given"
        return self


class GeneratorLoader(_ThreadedLoader):
    """The loader of `DataLoader.from_generator` in static mode: iterates over feeds for Executor.run."""

    def __init__(
        self,
        feed_list: Any = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        drop_last: bool = True,
    ) -> None:
        super().__init__(capacity)
        if not feed_list:
            raise Exception("feed_list must be given in static mode")
        self._feed_list = feed_list
        self._return_list = return_list
        self._drop_last = drop_last
        self._iterable = iterable
        # The queue that the Program reads, if iterable is False.
        self._queue = None if iterable else attach_source(feed_list, self._capacity, use_double_buffer, drop_last)

    @property
    def queue(self) -> Any:
        """The batches that are ready, during a pass."""
        return self._reader if self._queue is None else self._queue

    def __iter__(self) -> GeneratorLoader:
        assert self._iterable, "DataLoader is not iterable"
        assert self._source is not None, "Data source of DataLoader has not set yet"
        self._begin(self._source)
        return self

    def _get(self) -> Any:
        try:
            return super()._get()
        except StopIteration:
            raise
        except Exception as error:  # as in 2.0.2, where the queue of batches is killed
            raise SystemError(f"(Fatal) the reader has raised an exception: {error!r}") from error

    def __next__(self) -> Any:
        assert self._places is not None
        group = []
        for place in self._places:
            try:
                group.append(self._fields(self._get(), place))
            except StopIteration:
                if not group or self._drop_last:
                    raise
                break
            except BaseException:
                self._stop()
                raise
        return group if self._return_list else [by_name(fields, self._feed_list) for fields in group]

    def _fields(self, batch: Iterable[Any], place: Any) -> list[Any]:
        """The fields of a batch as LoDTensors."""
        fields = list(batch)
        if len(fields) != len(self._feed_list):
            raise ValueError(f"the data source yields {len(fields)} fields, but feed_list has {len(self._feed_list)}")
        return [self._field(field, var, place) for field, var in zip(fields, self._feed_list, strict=True)]

    def _field(self, field: Any, var: Any, place: Any) -> Any:
        if not isinstance(field, list):
            return to_lod_tensors([field], place)[0]
        # Raw samples: converted to the Variable's element type and inner shape.
        lengths: list[list[int]] = [[] for _ in range(var.lod_level)]
        for level in lengths:  # the sequence lengths at each level, with its items at the next one
            level.extend(len(item) for item in field)
            field = [item for items in field for item in items]
        array = as_array(field).astype(convert_dtype(var.dtype))
        shape = tuple(var.shape)
        if array.ndim != len(shape) and shape.count(-1) <= 1:
            try:
                array = array.reshape(shape)
            except ValueError:
                raise ValueError(f"feed: data of shape {array.shape} does not fit the declared shape {shape}") from None
        tensor = to_lod_tensors([array], place)[0]
        if lengths:
            tensor.set_recursive_sequence_lengths(lengths)
        return tensor

    def start(self) -> None:
        """Starts a pass over the source, for Programs that read by themselves (iterable=False).

        Executor.run raises EOFException at the end.
        """
        assert self._queue is not None, "start() is for iterable=False only"
        assert self._source is not None, "Data source of DataLoader has not set yet"
        self._queue.start()

    def reset(self) -> None:
        """Ends the pass (iterable=False); start() begins the next one."""
        assert self._queue is not None, "reset() is for iterable=False only"
        self._queue.reset()

    def _reset(self) -> None:
        """Ends the pass."""
        if self._queue is not None:
            self._queue.reset()
        self._stop()

    def set_batch_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> GeneratorLoader:
        """Reads batches from `reader()`, each a list or tuple of fields. Returns the loader.

        `places` is required unless the Program reads by itself (iterable=False).
        """
        self._source = reader
        if self._queue is not None:
            place = CPUPlace()
            self._queue.provider = lambda: (self._fields(batch, place) for batch in reader())
            return self
        assert places is not None, "places must be given if iterable is True"
        self._places = place_list(places)
        return self


def loader_of_mode(
    feed_list: Any,
    capacity: int | None,
    use_double_buffer: bool,
    iterable: bool,
    return_list: bool,
    use_multiprocess: bool = False,
    drop_last: bool = True,
) -> DygraphGeneratorLoader | GeneratorLoader:
    """The loader of the current mode; the arguments are those of `DataLoader.from_generator`."""
    if not in_static_mode():
        return DygraphGeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list, use_multiprocess)
    return GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last)


class PyReader(DataLoaderBase):
    """The former interface of `DataLoader.from_generator`, with decorate_* methods that set the source."""

    def __init__(
        self,
        feed_list: Any = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        super().__init__()
        self._loader: Any = loader_of_mode(feed_list, capacity, use_double_buffer, iterable, return_list)

    @property
    def queue(self) -> Any:
        """The batches that are ready, during a pass."""
        return self._loader.queue

    @property
    def iterable(self) -> bool:
        """Whether the reader is read by a for loop."""
        return self._loader.iterable

    def __iter__(self) -> Any:
        return self._loader.__iter__()

    def __next__(self) -> Any:
        return self._loader.__next__()

    def start(self) -> None:
        """Starts a pass, for Programs that read by themselves (iterable=False)."""
        self._loader.start()

    def reset(self) -> None:
        """Ends the pass (iterable=False)."""
        self._loader.reset()

    def decorate_sample_generator(
        self, sample_generator: Any, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> None:
        """The same as `set_sample_generator` of the loader."""
        self._loader.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Any, places: Any = None) -> None:
        """The same as `set_sample_list_generator` of the loader."""
        self._loader.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Any, places: Any = None) -> None:
        """The same as `set_batch_generator` of the loader."""
        self._loader.set_batch_generator(reader, places)


class DatasetLoader(DataLoaderBase):
    """The loader of `DataLoader.from_dataset`: each step yields a batch per place, as dicts by variable."""

    def __init__(self, dataset: Any, places: Any, drop_last: bool) -> None:
        super().__init__()
        if not hasattr(dataset, "proto_desc"):
            raise TypeError(f"from_dataset: dataset must be an InMemoryDataset or QueueDataset, got {type(dataset)}")
        self._places = place_list(places)
        count = len(self._places)
        if len(dataset.filelist) < count:
            raise AssertionError(f"from_dataset: {count} places need as many files, got {len(dataset.filelist)}")
        if dataset.thread_num not in (0, count):
            warnings.warn(f"from_dataset: {count} threads replace the data set's {dataset.thread_num}", stacklevel=3)
        dataset._set_thread(count)
        self._dataset, self._drop_last = dataset, drop_last
        self._names: list[str] = []
        self._readers: list[Any] = []

    def __iter__(self) -> DatasetLoader:
        self._close()
        self._dataset._prepare_to_run()
        self._names, self._readers = self._dataset.dataset.batches(len(self._places or []))
        return self

    def _close(self) -> None:
        for reader in self._readers:
            reader.close()
        self._readers = []

    def __next__(self) -> list[dict[str, Any]]:
        step: list[dict[str, Any]] = []
        wanted = len(self._places or [])
        # Exhausted readers release their places to others; an incomplete step at the end is dropped.
        while self._readers and len(step) < wanted:
            for reader in list(self._readers):
                batch = reader.next()
                if batch is None or self._drop_last and batch[0] != self._dataset.proto_desc.batch_size:
                    self._readers.remove(reader)
                    continue
                step.append(dict(zip(self._names, batch[1], strict=True)))
                if len(step) == wanted:
                    return step
        self._close()
        raise StopIteration
