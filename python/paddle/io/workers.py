"""WorkerPool: the worker processes of a DataLoader, for one pass or several."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.process
import os
import selectors
import signal
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn

from paddle.io.channel import Channel
from paddle.io.fetcher import _DatasetKind
from paddle.io.worker import _Drained, _worker_loop, _WorkerError

# Interval of checks for a dead worker whose end of the channel is kept open by another process.
_POLL = 1.0
# Time for a worker to finish its current sample when a pass ends early.
_GRACE = 1.0


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _disown() -> None:
    """In a process made by os.fork(): otherwise multiprocessing would end the parent's workers at its exit."""
    children: set = getattr(multiprocessing.process, "_children", set())
    for pool in list(_pools):
        children.difference_update(pool._processes)


os.register_at_fork(after_in_child=_disown)


class WorkerPool:
    """Distributes the sampler's batches to the workers in turn and returns the results in order.

    Each worker has at most `prefetch_factor` batches waiting or ready, which bounds memory while reading ahead. A pool
    of persistent workers runs further passes; `begin` starts each after the first.
    """

    def __init__(self, loader: Any, collate_fn: Any, indices: Iterator[Any], seed: int = 0) -> None:
        self._kind = loader.dataset_kind
        self._timeout = loader.timeout
        self._persistent = loader.persistent_workers
        self._ahead = loader.prefetch_factor * max(loader.num_workers, len(loader.places))
        self._indices = indices
        self._drained: set[int] = set()  # workers without samples, of persistent ones
        self._stale: set[int] = set()  # numbers of batches that no pass waits for
        self._channels: list[Channel | None] = []
        self._processes: list[Any] = []
        self._selector = selectors.DefaultSelector()
        self._turn = itertools.cycle(range(loader.num_workers))
        self._owner: dict[int, int] = {}  # number of a requested batch -> worker
        self._ready: dict[int, Any] = {}
        self._pending: deque[int] = deque()  # numbers of requested batches, in order
        self._next_number = 0
        self._closed = False
        self._pid = os.getpid()
        _pools.add(self)
        try:
            self._start(loader, collate_fn, seed)
            self._ask_ahead()
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether another pass can begin: all workers live, in the process that started them."""
        return not self._closed and os.getpid() == self._pid and all(p.is_alive() for p in self._processes)

    def begin(self, indices: Iterator[Any], seed: int) -> None:
        """Starts another pass; batches of an earlier one that was not finished are dropped as they arrive."""
        self._stale.update(number for number in self._pending if number not in self._ready)
        self._pending.clear()
        self._ready.clear()
        self._drained.clear()
        self._indices = indices
        for worker_id, channel in enumerate(self._channels):
            assert channel is not None
            try:
                channel.send_while_reading((None, seed), lambda worker_id=worker_id: self._read(worker_id))  # type: ignore[misc]
            except (OSError, ValueError):
                self._died(worker_id)
        self._ask_ahead()

    def _ask_ahead(self) -> None:
        for _ in range(self._ahead):
            self._ask()

    def _start(self, loader: Any, collate_fn: Any, seed: int) -> None:
        # By fork, as in 2.0.2: the dataset need not be picklable, and a worker starts within milliseconds.
        context = multiprocessing.get_context("fork")
        for worker_id in range(loader.num_workers):
            here, there = Channel.pair(loader.use_shared_memory)
            self._channels.append(here)
            process = context.Process(
                target=_worker_loop,
                args=(
                    there,
                    loader.dataset,
                    loader.dataset_kind,
                    loader.auto_collate_batch,
                    collate_fn,
                    loader.drop_last,
                    loader.worker_init_fn,
                    worker_id,
                    loader.num_workers,
                    seed,
                ),
                name=f"paddle-DataLoader-{worker_id}",
                daemon=True,
            )
            try:
                with warnings.catch_warnings():
                    # Python 3.12 warns of any thread; the library's threads are idle or held by its fork handler.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
            finally:
                there.drop()
            self._processes.append(process)
            self._selector.register(here, selectors.EVENT_READ, worker_id)

    def _ask(self) -> None:
        """Sends the next batch's indices to the next worker that still has samples."""
        worker_id = next(
            (
                w
                for w in itertools.islice(self._turn, len(self._channels))
                if self._channels[w] is not None and w not in self._drained
            ),
            None,
        )
        if worker_id is None:
            return
        try:
            indices = next(self._indices)
        except StopIteration:
            return
        channel = self._channels[worker_id]
        assert channel is not None
        number, self._next_number = self._next_number, self._next_number + 1
        self._owner[number] = worker_id
        self._pending.append(number)
        try:
            channel.send_while_reading((number, indices), lambda: self._read(worker_id))
        except (OSError, ValueError):
            # Closed here if the worker's last samples have arrived, else at the worker's end.
            if self._channels[worker_id] is not None:
                self._died(worker_id)

    def get(self) -> Any:
        """The next batch, in the sampler's order; StopIteration at the end."""
        while self._pending:
            number = self._pending[0]
            if number not in self._ready:
                self._wait(number)
            result = self._ready.pop(number)
            self._pending.popleft()
            del self._owner[number]
            self._ask()
            if isinstance(result, _Drained):
                continue
            if isinstance(result, _WorkerError):
                result.reraise()
            return result
        raise StopIteration

    def _wait(self, number: int) -> None:
        started = time.monotonic()
        while number not in self._ready:
            events = self._selector.select(_POLL)
            for key, _ in events:
                self._read(key.data)
            if events:
                continue
            worker_id = self._owner[number]
            if not self._processes[worker_id].is_alive():
                self._died(worker_id)
            waited = time.monotonic() - started
            if self._timeout and waited > self._timeout:
                pid = self._processes[worker_id].pid
                self.close()
                raise RuntimeError(
                    f"DataLoader worker {worker_id} (pid {pid}) has not delivered a batch for {waited:.0f} s "
                    f"(timeout={self._timeout})"
                )

    def _read(self, worker_id: int) -> None:
        channel = self._channels[worker_id]
        assert channel is not None
        try:
            number, result = channel.receive()
        except (EOFError, ConnectionResetError):
            self._died(worker_id)
        if number in self._stale:
            self._stale.discard(number)
            self._owner.pop(number, None)
            return
        if isinstance(result, _Drained) and self._kind == _DatasetKind.ITER:
            self._retire(worker_id)
        self._ready[number] = result

    def _retire(self, worker_id: int) -> None:
        """Stops requests to a worker without samples; its outstanding requests are already empty."""
        if self._persistent:
            self._drained.add(worker_id)
            return
        channel, self._channels[worker_id] = self._channels[worker_id], None
        if channel is not None:
            self._selector.unregister(channel)
            channel.close()
        for number in self._pending:
            if self._owner[number] == worker_id and number not in self._ready:
                self._ready[number] = _Drained()

    def _died(self, worker_id: int) -> NoReturn:
        process = self._processes[worker_id]
        process.join(_GRACE)
        how = _how_it_ended(process.exitcode)
        self.close()
        raise RuntimeError(
            f"DataLoader 1 workers exit unexpectedly, pids: {process.pid} (worker {worker_id} {how})"
        ) from None

    def close(self) -> None:
        """Ends the workers by closing their channels; those still busy are killed."""
        # In a forked process the workers are not its children.
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._pending.clear()
        self._ready.clear()
        self._selector.close()
        for channel in self._channels:
            if channel is not None:
                channel.close()
        deadline = time.monotonic() + _GRACE
        for send in (None, "terminate", "kill"):
            for process in self._processes:
                if send and process.is_alive():
                    getattr(process, send)()
            for process in self._processes:
                process.join(max(0.0, deadline - time.monotonic()))
            if not any(process.is_alive() for process in self._processes):
                break
            deadline = time.monotonic() + _GRACE


def _how_it_ended(exitcode: int | None) -> str:
    if exitcode is None:
        return "closed its channel"
    if exitcode >= 0:
        return f"exited with code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    hint = ": out of memory?" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
