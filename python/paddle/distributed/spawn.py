"""`spawn`: runs a function in several processes of one job."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from paddle import device

# The launcher's modules are imported where they are used, which keeps `import paddle` fast.
if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from .launch.guard import Guard
    from .launch.job import Job

__all__ = ["spawn"]

_OPTIONS = ("start_method", "ips", "gpus", "print_config")
_FORMER_OPTIONS = ("selected_gpus", "started_port", "cluster_node_ips", "node_ip", "use_paddlecloud")
# Seconds between SIGTERM and SIGKILL, and for the other processes after a failure.
_PATIENCE = 3.0
# Contexts with processes that are not joined: they hold the rendezvous.
_unfinished: set[MultiprocessContext] = set()
_environment_lock = threading.Lock()


class ProcessFailed(Exception):
    """A process of `spawn` has failed. `index` is its index, `exitcode` its exit code (minus a signal's number);
    the message has the traceback of an exception, which is the ``__cause__`` where it could be pickled."""

    def __init__(self, message: str, index: int, exitcode: int | None):
        super().__init__(message)
        self.index, self.exitcode = index, exitcode


class _Inbox:
    """The values that one process sends: the reading side of multiprocessing.SimpleQueue."""

    def __init__(self, connection: Connection):
        self.connection: Connection | None = connection
        self._values: deque[tuple[bool, Any]] = deque()

    def pump(self) -> None:
        """Receives one message, which unblocks the sender of a large one."""
        if self.connection is None:
            return
        try:
            self._values.append((True, self.connection.recv()))
        except (EOFError, OSError):
            self.connection.close()
            self.connection = None
        except Exception as e:  # a value that cannot be unpickled here
            self._values.append((False, e))

    def empty(self) -> bool:
        """Whether no value is available."""
        while self.connection is not None and self.connection.poll(0):
            self.pump()
        return not self._values

    def get(self) -> Any:
        """Waits for the next value.

        Raises:
            EOFError: when the process has ended.
        """
        while not self._values:
            if self.connection is None:
                raise EOFError("the process has ended without sending a value")
            self.pump()
        good, value = self._values.popleft()
        if not good:
            raise value
        return value


def _options_valid_check(options: Mapping[str, Any]) -> None:
    for key in options:
        if key in _FORMER_OPTIONS:
            warnings.warn(
                f"The option {key} of paddle.distributed.spawn is deprecated: use ips and gpus.",
                DeprecationWarning,
                stacklevel=3,
            )
        elif key not in _OPTIONS:
            raise ValueError(
                f"The option {key} of paddle.distributed.spawn is not supported; there are " + ", ".join(_OPTIONS)
            )


def _option(options: Mapping[str, Any], *names: str) -> Any:
    return next((options[n] for n in names if options.get(n) is not None), None)


def _gpus(nprocs: int, listed: str | None) -> list[list[str]]:
    """The GPU of each process; empty lists where work runs on the CPU."""
    from .launch import collective

    if listed is None and device.get_device() == "cpu":
        return [[] for _ in range(nprocs)]
    visible = os.getenv("CUDA_VISIBLE_DEVICES")
    count = collective.gpu_count(os.environ)
    seen = [x.strip() for x in visible.split(",")] if visible else [str(i) for i in range(count)]
    if listed is None:
        if len(seen) < nprocs:
            raise RuntimeError(
                f"{nprocs} processes need as many GPUs, {len(seen)} can be seen: change nprocs or "
                "CUDA_VISIBLE_DEVICES, or call paddle.set_device('cpu') first"
            )
        return [[x] for x in seen[:nprocs]]
    ids = [x.strip() for x in listed.split(",")]
    if len(ids) != nprocs:
        raise ValueError(f"{len(ids)} GPUs are selected ({listed}) for {nprocs} processes")
    for x in ids:
        if x not in seen:
            raise ValueError(f"the selected GPU {x} cannot be found; visible are: {', '.join(seen) or 'none'}")
    return [[x] for x in ids]


def _plan(nprocs: int, options: Mapping[str, Any]) -> Job:
    import argparse

    from .launch import collective, environment

    args = argparse.Namespace(
        ips=_option(options, "ips", "cluster_node_ips"),
        node_ip=_option(options, "node_ip"),
        cores=None,
        started_port=_option(options, "started_port"),
        use_paddlecloud=bool(_option(options, "use_paddlecloud")),
    )
    if args.started_port is not None:
        args.started_port = int(args.started_port)
    gpus = _gpus(nprocs, _option(options, "gpus", "selected_gpus"))
    place = environment.find(args, os.environ, (environment.from_cloud, environment.from_flags))
    if _option(options, "print_config"):
        print(f"spawn: {nprocs} processes, this is node {place.index} of {', '.join(place.ips)}")
    return collective.plan(args, os.environ, gpus, place)


def _get_subprocess_env_list(nprocs: int, options: Mapping[str, Any]) -> list[dict[str, str]]:
    return [p.env for p in _plan(nprocs, options).processes]


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Context: sets the variables that a new interpreter reads at its start."""
    with _environment_lock:
        former = {k: os.environ.get(k) for k in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for k, v in former.items():
                if v is None:
                    os.environ.pop(k, None)
                else:
                    os.environ[k] = v


def _sendable(error: BaseException) -> bytes | None:
    """The pickled exception, or None where it cannot be unpickled."""
    try:
        data = pickle.dumps(error.with_traceback(None))
        pickle.loads(data)
    except Exception:
        return None
    return data


def _func_wrapper(
    func: Callable, args: tuple, errors: Connection, results: Connection, variables: dict[str, str], cores: list[int]
) -> None:
    """The main function of a new process."""
    for name in ("http_proxy", "https_proxy"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        results.send(func(*args))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as e:
        # The others must not wait for this process; the module is loaded only in a process that has joined.
        parallel = sys.modules.get("paddle.distributed.parallel")
        if parallel is not None:
            parallel.abort(e)
        text = traceback.format_exc()
        errors.send((text, _sendable(e)))
        sys.exit(1)


class MultiprocessContext:
    """The processes that `spawn` has started.

    Attributes:
        processes (list): the `multiprocessing` processes, by rank.
        return_queues (list): for each process, a queue with the result of its function: ``get()`` and ``empty()``.
        error_queues (list): for each process, a queue with the traceback of its exception.
    """

    def __init__(
        self,
        processes: list,
        error_queues: list[_Inbox],
        return_queues: list[_Inbox],
        held: Any = None,
        watcher: Guard | None = None,
        first: int = 0,
    ):
        self.processes, self.error_queues, self.return_queues = processes, error_queues, return_queues
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}
        # The rendezvous store, the guard process, the rank of the first of `processes`.
        self._held, self._guard, self._first = held, watcher, first

    def join(self, timeout: float | None = None) -> bool:
        """Waits until a process has ended, or `timeout` seconds.

        Returns:
            bool: whether all have ended successfully.

        Raises:
            ProcessFailed: one has failed; the others are terminated.
        """
        from multiprocessing.connection import wait

        limit = None if timeout is None else time.monotonic() + timeout
        ended: list[int] = []
        while self.sentinels and not ended:
            inboxes = {q.connection: q for q in (*self.error_queues, *self.return_queues) if q.connection is not None}
            left = None if limit is None else max(0.0, limit - time.monotonic())
            ready = wait([*self.sentinels, *inboxes], left)
            for r in ready:
                if r in inboxes:
                    inboxes[r].pump()
                else:
                    ended.append(self.sentinels.pop(r))
            if not ready:
                return False
        for i in ended:
            self.processes[i].join()
            if self._guard is not None:
                self._guard.forget(self.processes[i].pid)
        failed = [i for i in ended if self.processes[i].exitcode != 0]
        if failed:
            index = self._cause(failed)
            self._end()
            self._throw_exception(index)
        if not self.sentinels:
            self._close()
        return not self.sentinels

    def _cause(self, failed: list[int]) -> int:
        """The failure that caused the others: a signal's, or that of the rank reported as first, once it has ended."""
        killed = [i for i in failed if self.processes[i].exitcode < 0]
        if killed:
            return min(killed)
        from .launch import cause

        rank = cause.reported(self._held)
        index = -1 if rank is None else rank - self._first
        if not 0 <= index < len(self.processes):
            return min(failed)
        self.processes[index].join(1.0)
        return index if self.processes[index].exitcode else min(failed)

    def _end(self) -> None:
        """Terminates all running processes and their children."""
        from .launch import guard

        running = {p.pid for p in self.processes if p.is_alive()}
        guard.end(set(), running, _PATIENCE)
        for p in self.processes:
            p.join()
        self.sentinels.clear()
        self._close()

    def _close(self) -> None:
        for q in (*self.error_queues, *self.return_queues):
            q.empty()  # receives pending messages
        if self._guard is not None:
            self._guard.close()
        self._held = self._guard = None
        _unfinished.discard(self)

    def _throw_exception(self, error_index: int) -> None:
        code = self.processes[error_index].exitcode
        if self.error_queues[error_index].empty():
            if code < 0:
                try:
                    name = signal.Signals(-code).name
                except ValueError:
                    name = str(-code)
                raise ProcessFailed(f"Process {error_index} was ended by signal {name}.", error_index, code)
            raise ProcessFailed(f"Process {error_index} exited with code {code}.", error_index, code)
        text, data = self.error_queues[error_index].get()
        cause = None
        if data is not None:
            with contextlib.suppress(Exception):
                cause = pickle.loads(data)
        raise ProcessFailed(f"Process {error_index} raised:\n\n{text}", error_index, code) from cause


def _nprocs(nprocs: int) -> int:
    if not isinstance(nprocs, int) or isinstance(nprocs, bool) or nprocs != -1 and nprocs < 1:
        raise ValueError(f"nprocs is a number of processes, or -1 for all devices, not {nprocs!r}")
    if nprocs > 0:
        return nprocs
    from .launch import collective, environment

    if device.get_device() != "cpu":
        return collective.gpu_count(os.environ)
    named = environment.number(os.environ, "CPU_NUM", 1)
    return named or len(os.sched_getaffinity(0))


def spawn(func, args=(), nprocs=-1, join=True, daemon=False, **options):
    """Runs a function in several processes of one job.

    The environment of each process has its rank, as with `paddle.distributed.launch`; it calls
    ``paddle.distributed.init_parallel_env()`` to join the others. Guard the call by ``if __name__ == "__main__":``.

    Args:
        func (Callable): the function; it must be picklable.
        args (tuple, optional): its arguments. Default: none.
        nprocs (int, optional): the number of processes. Default: -1, one for each GPU; on CPUs the value of the
            environment variable ``CPU_NUM``, else one for each core.
        join (bool, optional): wait for all of them. Default: True.
        daemon (bool, optional): they end with this process, and cannot start processes. Default: False.
        **options: ``start_method`` ("spawn", the default, "fork" or "forkserver"), ``gpus`` (such as "0,1", one for
            each process), ``ips`` (addresses of all nodes; each of them calls spawn), ``print_config`` (bool), and the
            deprecated ``selected_gpus``, ``started_port``, ``cluster_node_ips``, ``node_ip``, ``use_paddlecloud``.

    Returns:
        MultiprocessContext: ``processes``, ``return_queues``, and ``join(timeout)``.

    Raises:
        ValueError: for an unknown option, or invalid GPUs.
        RuntimeError: more processes than GPUs.
        ProcessFailed: (by join) a process raised, with its traceback, or ended abnormally; the others are terminated.

    Examples:
        >>> import math
        >>> import paddle.distributed as dist
        >>> context = dist.spawn(math.sqrt, args=(4.0,), nprocs=2)
        >>> [queue.get() for queue in context.return_queues]
        [2.0, 2.0]
    """
    from .launch import guard, store

    _options_valid_check(options)
    job = _plan(_nprocs(nprocs), options)
    held, address = store.host(job)
    job.rendezvous(address)
    mp = multiprocessing.get_context(options.get("start_method") or "spawn")
    watcher = guard.Guard()
    context = MultiprocessContext([], [], [], held, watcher, job.processes[0].rank)
    try:
        for process in job.processes:
            errors, send_error = mp.Pipe(duplex=False)
            results, send_result = mp.Pipe(duplex=False)
            child = mp.Process(
                target=_func_wrapper,
                args=(func, args, send_error, send_result, process.env, process.cores),
            )
            child.daemon = daemon
            with _environment(process.env):
                child.start()
            send_error.close()
            send_result.close()
            watcher.tree(child.pid)
            context.processes.append(child)
            context.error_queues.append(_Inbox(errors))
            context.return_queues.append(_Inbox(results))
            context.sentinels[child.sentinel] = process.index
        _unfinished.add(context)
        while join and not context.join():
            continue
    except ProcessFailed:
        raise
    except BaseException:
        context._end()
        raise
    return context
