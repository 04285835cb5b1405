"""Decorators of readers: shuffling, buffering, mapping, composition."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import random
import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

__all__ = [
    "cache",
    "map_readers",
    "buffered",
    "compose",
    "chain",
    "shuffle",
    "ComposeNotAligned",
    "firstn",
    "xmap_readers",
    "multiprocess_reader",
]

Reader = Callable[[], Iterator]


class ComposeNotAligned(ValueError):
    """Composed readers have different lengths."""


def cache(reader: Reader) -> Reader:
    """A reader that keeps the samples of `reader` in memory after the first pass."""
    kept = tuple(reader())
    return lambda: iter(kept)


def map_readers(func: Callable, *readers: Reader) -> Reader:
    """A reader of `func(sample of the first, sample of the second, ...)`.

    Examples:
        >>> import paddle
        >>> list(paddle.reader.map_readers(lambda a, b: a + b, lambda: iter([1, 2]), lambda: iter([10, 20]))())
        [11, 22]
    """
    return lambda: map(func, *(r() for r in readers))


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """A reader that shuffles `buf_size` samples at a time, by Python's `random`."""

    def read() -> Iterator:
        samples = iter(reader())
        while buffer := list(itertools.islice(samples, buf_size)):
            random.shuffle(buffer)
            yield from buffer

    return read


def chain(*readers: Reader) -> Reader:
    """A reader that concatenates the samples of all readers."""
    return lambda: itertools.chain(*(r() for r in readers))


def _flat(sample: Any) -> tuple:
    return sample if isinstance(sample, tuple) else (sample,)


def compose(*readers: Reader, **kwargs: bool) -> Reader:
    """A reader of tuples with one sample of each reader; samples that are tuples are flattened.

    Args:
        check_alignment (bool): readers of different lengths raise ComposeNotAligned; otherwise the rest is dropped.

    Examples:
        >>> import paddle
        >>> list(paddle.reader.compose(lambda: iter([1, 2]), lambda: iter([(3, 4), (5, 6)]))())
        [(1, 3, 4), (2, 5, 6)]
    """
    check_alignment = kwargs.pop("check_alignment", True)
    if kwargs:
        raise TypeError(f"compose takes no argument {', '.join(kwargs)}")
    nothing = object()

    def read() -> Iterator[tuple]:
        together = itertools.zip_longest(*(r() for r in readers), fillvalue=nothing)
        for samples in together:
            if any(s is nothing for s in samples):
                if check_alignment:
                    raise ComposeNotAligned("the readers differ in the number of samples")
                return
            yield tuple(itertools.chain(*map(_flat, samples)))

    return read


def firstn(reader: Reader, n: int) -> Reader:
    """A reader of the first `n` samples."""
    return lambda: itertools.islice(reader(), n)


class _Failure:
    """An exception of a worker thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _End:
    """Marks the end of the samples."""


def _start(work: Callable[[], None], fail: Callable[[_Failure], None]) -> None:
    def run() -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 (raised again by the consumer)
            fail(_Failure(e))

    threading.Thread(target=run, daemon=True).start()


def buffered(reader: Reader, size: int) -> Reader:
    """A reader that reads up to `size` samples ahead in a thread."""

    def read() -> Iterator:
        queue: Queue = Queue(maxsize=size)

        def work() -> None:
            for sample in reader():
                queue.put(sample)
            queue.put(_End)

        _start(work, queue.put)
        while (sample := queue.get()) is not _End:
            if isinstance(sample, _Failure):
                raise sample.error
            yield sample

    return read


def xmap_readers(mapper: Callable, reader: Reader, process_num: int, buffer_size: int, order: bool = False) -> Reader:
    """A reader of `mapper(sample)`, computed by `process_num` threads.

    Args:
        buffer_size (int): maximum number of buffered samples.
        order (bool): keep the order of `reader`.
    """

    def read() -> Iterator:
        todo: Queue = Queue(buffer_size)
        done: Queue = Queue(buffer_size)

        def feed() -> None:
            for item in enumerate(reader()):
                todo.put(item)
            for _ in range(process_num):
                todo.put(_End)

        def work() -> None:
            while (item := todo.get()) is not _End:
                done.put((item[0], mapper(item[1])))
            done.put(_End)

        _start(feed, done.put)
        for _ in range(process_num):
            _start(work, done.put)
        waiting: dict[int, Any] = {}
        following, ended = 0, 0
        while ended < process_num:
            item = done.get()
            if isinstance(item, _Failure):
                raise item.error
            if item is _End:
                ended += 1
            elif not order:
                yield item[1]
            else:
                waiting[item[0]] = item[1]
            while following in waiting:
                yield waiting.pop(following)
                following += 1

    return read


def _send(reader: Reader, queue: Any) -> None:
    try:
        for sample in reader():
            queue.put((True, pickle.dumps(sample)))
        queue.put((True, None))
    except BaseException as e:  # noqa: BLE001 (reported by the reading process)
        queue.put((False, repr(e)))


def multiprocess_reader(readers: list[Reader], use_pipe: bool = True, queue_size: int = 1000) -> Reader:
    """A reader of the samples of all `readers`, each run in a separate process; the order is not fixed.

    Args:
        use_pipe (bool): ignored; one queue serves both settings.
        queue_size (int): maximum number of buffered samples.

    Raises:
        RuntimeError: while reading, if a reader raises.
    """
    if not isinstance(readers, (list, tuple)) or not readers:
        raise AssertionError("`readers` must be a non-empty list of readers")

    def read() -> Iterator:
        fork = multiprocessing.get_context("fork")
        queue = fork.Queue(queue_size)
        workers = [fork.Process(target=_send, args=(r, queue), daemon=True) for r in readers]
        for worker in workers:
            worker.start()
        try:
            running = len(workers)
            while running:
                good, content = queue.get()
                if not good:
                    raise RuntimeError(f"a reader of multiprocess_reader failed: {content}")
                if content is None:
                    running -= 1
                else:
                    yield pickle.loads(content)
        finally:
            for worker in workers:
                worker.terminate()
                worker.join()

    return read
