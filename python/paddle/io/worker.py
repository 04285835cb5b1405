"""The worker process of a DataLoader."""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle._basics import mode
from paddle._basics.place import CPUPlace
from paddle._basics.random import seed as paddle_seed
from paddle.io.channel import Channel
from paddle.io.collate import as_numpy, collate_later, default_collate_fn, map_arrays
from paddle.io.fetcher import _DatasetKind

__all__ = ["get_worker_info"]

_worker_info: WorkerInfo | None = None


class WorkerInfo:
    """The result of `get_worker_info`: `id`, `num_workers`, this worker's copy of the `dataset`, and its `seed`, which
    differs between workers and passes; read-only."""

    __initialized = False

    def __init__(self, **kwargs: Any) -> None:
        for key, value in kwargs.items():
            setattr(self, key, value)
        self.__initialized = True

    def __setattr__(self, key: str, value: Any) -> None:
        if self.__initialized:
            raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")
        super().__setattr__(key, value)


def get_worker_info() -> WorkerInfo | None:
    """The WorkerInfo in a DataLoader's worker process; None in any other process.

    Examples:
        >>> import paddle
        >>> print(paddle.io.get_worker_info())
        None
    """
    return _worker_info


class _WorkerError:
    """An exception of a worker with its traceback, to be sent to the training process."""

    def __init__(self, worker_id: int, error: BaseException) -> None:
        self.worker_id = worker_id
        self.name = type(error).__name__
        self.text = "".join(traceback.format_exception(error))
        self.kind = _portable(type(error))

    def reraise(self) -> None:
        """Raises an exception of the same class, with the worker's traceback as message."""
        message = f"DataLoader worker({self.worker_id}) caught {self.name} with message:\n{self.text}"
        raise _with_message(self.kind, message)


def _portable(kind: type[BaseException]) -> type[BaseException]:
    """`kind` if the training process can import it by name and it is an ordinary Exception, else RuntimeError."""
    try:
        if issubclass(kind, Exception) and pickle.loads(pickle.dumps(kind)) is kind:
            return kind
    except Exception:  # pickling a user's class may raise anything
        return RuntimeError
    return RuntimeError


class _Text(str):
    """A message that KeyError, which prints the repr of its argument, prints unquoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _with_message(kind: type[BaseException], message: str) -> BaseException:
    # StopIteration would silently end the caller's loop.
    if issubclass(kind, (StopIteration, StopAsyncIteration)):
        return RuntimeError(message)
    try:
        error = kind(_Text(message) if issubclass(kind, KeyError) else message)
    except Exception:  # a class whose constructor requires other arguments
        return RuntimeError(message)
    return error if message in str(error) else RuntimeError(message)


class _Drained:
    """Marks that an IterableDataset's worker has no more samples."""


def _die_with_parent() -> None:
    """Ends this process as soon as its parent has exited, even while a sample is being read."""
    parent = os.getppid()

    def watch() -> None:
        try:
            fd = os.pidfd_open(parent)
        except (AttributeError, OSError):
            while not _stop_watch.wait(0.5):
                if os.getppid() != parent:
                    os._exit(1)
            return
        # The parent may have exited between the fork and here, and its pid may be reused.
        if os.getppid() == parent:
            select.select([fd], [], [])
        os._exit(1)

    threading.Thread(target=watch, name="paddle-parent-watch", daemon=True).start()


_stop_watch = threading.Event()


def _leave_devices() -> None:
    """Makes the CPU the only device of this process: a forked process cannot use its parent's CUDA context."""
    cuda = sys.modules.get("paddle._cuda")
    if cuda is not None:
        cuda.leave("a worker process of a DataLoader computes on the CPU")
    mode._set_expected_place(CPUPlace())


def _plain(batch: Any) -> Any:
    """The batch with arrays for Tensors, whose memory is private to this process."""
    return map_arrays(batch, as_numpy)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    paddle_seed(seed)


def _worker_loop(
    channel: Channel,
    dataset: Any,
    dataset_kind: int,
    auto_collate_batch: bool,
    collate_fn: Callable[[Any], Any] | None,
    drop_last: bool,
    init_fn: Callable[[int], Any] | None,
    worker_id: int,
    num_workers: int,
    seed: int,
) -> None:
    """Replies to each (number, indices) with (number, batch) or (number, error), until the channel is closed.

    (None, seed) begins another pass. The generators of Python, numpy and paddle start with the seed plus the worker's
    number.
    """
    # Ctrl-C is sent to the whole process group; the parent handles it and closes the channel.
    # A handler, not SIG_IGN, which child processes started by a dataset would inherit.
    signal.signal(signal.SIGINT, lambda signum, frame: None)
    # The parent's handlers do not apply to this process.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with_parent()
    _leave_devices()

    if collate_fn is default_collate_fn:
        collate_fn = collate_later
    failure: _WorkerError | None = None
    fetcher: Any = None

    def begin(seed: int) -> None:
        nonlocal failure, fetcher
        global _worker_info
        first = fetcher is None
        _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, dataset=dataset, seed=seed + worker_id)
        _seed(seed + worker_id)
        try:
            if init_fn is not None and first:
                init_fn(worker_id)
            fetcher = _DatasetKind.create_fetcher(dataset_kind, dataset, auto_collate_batch, collate_fn, drop_last)
        except Exception as error:  # reported with the first batch
            failure = _WorkerError(worker_id, error)

    begin(seed)
    try:
        while True:
            number, indices = channel.receive()
            if number is None:
                begin(indices)
                continue
            if fetcher is None:
                channel.send((number, failure))
                continue
            try:
                batch = fetcher.fetch(indices)
            except StopIteration as error:
                drained = dataset_kind == _DatasetKind.ITER
                channel.send((number, _Drained() if drained else _WorkerError(worker_id, error)))
                continue
            except Exception as error:
                channel.send((number, _WorkerError(worker_id, error)))
                continue
            try:
                channel.send((number, _plain(batch)))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:  # a batch that cannot be pickled, or out of memory: nothing was sent yet
                channel.send((number, _WorkerError(worker_id, error)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent has closed the channel: the normal end
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
