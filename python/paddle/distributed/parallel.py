"""The rank of this process, and the initialization of collective communication."""

from __future__ import annotations

import atexit
import gc
import multiprocessing.util
import os
import signal
import sys
import threading
import types
import warnings
import weakref
from typing import Any

import paddle._core as _core

from . import mpi, nccl
from .launch import cause

__all__ = ["init_parallel_env"]


class ParallelEnv:
    """The environment variables of a launched process.

    They are read by the constructor: ``PADDLE_TRAINER_ID``, ``PADDLE_TRAINERS_NUM``, ``FLAGS_selected_gpus``,
    ``PADDLE_TRAINER_ENDPOINTS``, ``PADDLE_CURRENT_ENDPOINT`` and ``FLAGS_nccl_nrings``.

    Raises:
        ValueError: for a variable that is not a valid number.

    Examples:
        >>> import paddle.distributed as dist
        >>> env = dist.ParallelEnv()
        >>> env.rank, env.world_size
        (0, 1)
    """

    def __init__(self):
        self._rank = int(os.getenv("PADDLE_TRAINER_ID", "0"))
        self._world_size = int(os.getenv("PADDLE_TRAINERS_NUM", "1"))
        self._device_id = int(os.getenv("FLAGS_selected_gpus", "0").split(",")[0] or 0)
        self._trainer_endpoints = os.getenv("PADDLE_TRAINER_ENDPOINTS", "").split(",")
        self._current_endpoint = os.getenv("PADDLE_CURRENT_ENDPOINT", "")
        self._nrings = int(os.getenv("FLAGS_nccl_nrings", "1"))
        if not 0 < self._nrings < 9:
            raise ValueError(f"FLAGS_nccl_nrings must be from 1 to 8, not {self._nrings}")

    @property
    def rank(self) -> int:
        """The rank of this process (``PADDLE_TRAINER_ID``, 0 by default)."""
        return self._rank

    @property
    def world_size(self) -> int:
        """The number of processes (``PADDLE_TRAINERS_NUM``, 1 by default)."""
        return self._world_size

    @property
    def device_id(self) -> int:
        """The number of this process's GPU (the first of ``FLAGS_selected_gpus``, 0 by default)."""
        return self._device_id

    @property
    def current_endpoint(self) -> str:
        """This process's address (``PADDLE_CURRENT_ENDPOINT``, empty by default)."""
        return self._current_endpoint

    @property
    def trainer_endpoints(self) -> list[str]:
        """The addresses of all processes (``PADDLE_TRAINER_ENDPOINTS``, separated by commas)."""
        return self._trainer_endpoints

    @property
    def nrings(self) -> int:
        """The number of communication rings (``FLAGS_nccl_nrings``, 1 by default)."""
        return self._nrings

    # the names of 1.8
    local_rank = rank
    nranks = world_size
    dev_id = device_id


Env = ParallelEnv


class ParallelStrategy:
    """The argument of 1.8's `DataParallel`: the values of `ParallelEnv`, which may be changed."""

    def __init__(self) -> None:
        env = ParallelEnv()
        self.nranks = env.nranks
        self.local_rank = env.local_rank
        self.trainer_endpoints = env.trainer_endpoints
        self.current_endpoint = env.current_endpoint
        self.nrings = env.nrings


def prepare_context(strategy=None):
    """The name of `init_parallel_env` in 1.8.

    Args:
        strategy (ParallelStrategy, optional): by default that of the environment.

    Returns:
        ParallelStrategy|None: the strategy, or None for a single process.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.prepare_context()
    """
    strategy = ParallelStrategy() if strategy is None else strategy
    if strategy.nranks < 2:
        return None
    if not _core.dist.joined():
        init_parallel_env()
    return strategy


_global_parallel_env: ParallelEnv | None = None
# The groups by id: each keeps its started work.
_groups: dict[int, Any] = {}
# Groups of new_group: weak references, so that a group ends with its last user.
_made_groups: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def _get_global_parallel_env() -> ParallelEnv:
    global _global_parallel_env
    if _global_parallel_env is None:
        _global_parallel_env = ParallelEnv()
    return _global_parallel_env


def init_parallel_env() -> None:
    """Joins the other processes of the job; does nothing in a single process.

    Call it once at the start of a script that `paddle.distributed.launch` or `spawn` runs in several processes. The
    rendezvous is in the environment: the launcher sets ``PADDLE_MASTER`` and listens there; where the variables are set
    by hand, rank 0 listens, at ``PADDLE_MASTER`` or at the first of the ``PADDLE_TRAINER_ENDPOINTS``.
    With ``OAR_BACKEND=mpi`` and mpi4py, mpirun starts the processes, and MPI is the transport. With
    ``OAR_BACKEND=nccl`` and CuPy, NCCL is the transport of CUDA Tensors.

    Raises:
        ValueError: an environment variable is missing or invalid.
        RuntimeError: the others did not join within ``OAR_INIT_TIMEOUT`` seconds (300 by default).

    Examples:
        >>> import warnings
        >>> import paddle.distributed as dist
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     dist.init_parallel_env()
        >>> dist.get_world_size()
        1
    """
    global _global_parallel_env
    mpi.begin()
    nccl.begin()
    env = _global_parallel_env = ParallelEnv()
    if env.world_size < 2:
        warnings.warn(
            "init_parallel_env: the world has one rank, so there is nothing to set up",
            stacklevel=2,
        )
        return
    needed = ["PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"]
    if not os.getenv("PADDLE_MASTER"):
        needed += ["PADDLE_CURRENT_ENDPOINT", "PADDLE_TRAINER_ENDPOINTS"]
    for name in needed:
        if os.getenv(name) is None:
            raise ValueError(f"init_parallel_env: environment variable {name} is needed")
    if _core.dist.joined():
        warnings.warn("init_parallel_env: this process has joined already", stacklevel=2)
        return
    _core.dist.join()
    _groups.clear()
    _made_groups.clear()
    watch_the_end()


def _leave() -> None:
    """Leaves the job at exit. After an error, for which others may wait, garbage collection at exit is skipped: it
    takes
    a tenth of a second."""
    joined = _core.dist.joined()
    _core.dist.leave()
    if joined and getattr(sys, "last_value", None) is not None:
        gc.freeze()


_watching = False
# also for a process that joined by a Program
atexit.register(_leave)


def watch_the_end() -> None:
    """Installs handlers: leave the job at exit, report an uncaught exception, print the state of the job on SIGUSR1."""
    global _watching
    if _watching:
        return
    _watching = True
    # A child of multiprocessing ends without its atexit handlers.
    multiprocessing.util.Finalize(None, _core.dist.leave, exitpriority=-100)
    before = sys.excepthook

    def report_exception(kind: type[BaseException], value: BaseException, trace: types.TracebackType | None) -> None:
        abort(value)
        before(kind, value, trace)

    sys.excepthook = report_exception
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, lambda *_: print(report(), file=sys.stderr, end="", flush=True))


def abort(reason: BaseException | str) -> None:
    """Reports to the other processes that this one failed, and why: their waits end with a RuntimeError."""
    if isinstance(reason, BaseException):
        text = str(reason).strip().split("\n")[0]
        cause.report(reason)
        reason = f"{type(reason).__name__}: {text}" if text else type(reason).__name__
    _core.dist.abort(reason)


def get_rank() -> int:
    """The rank of this process in its job (``PADDLE_TRAINER_ID``, 0 by default).

    Examples:
        >>> import paddle.distributed as dist
        >>> dist.get_rank()
        0
    """
    return _get_global_parallel_env().rank


def get_world_size() -> int:
    """The number of processes of the job (``PADDLE_TRAINERS_NUM``, 1 by default).

    Examples:
        >>> import paddle.distributed as dist
        >>> dist.get_world_size()
        1
    """
    return _get_global_parallel_env().world_size


def is_initialized() -> bool:
    """Whether this process has joined a job of several processes.

    Examples:
        >>> import paddle.distributed as dist
        >>> dist.is_initialized()
        False
    """
    return _core.dist.joined()


def report(timeout: float = 2.0) -> str:
    """A line for each rank with its current operation and the ranks that it waits for: to debug a job that hangs.

    In a launched job the signal SIGUSR1 prints it.

    Args:
        timeout (float): seconds to wait for the other ranks; then the report has only this rank.

    Examples:
        >>> import paddle.distributed as dist
        >>> print(dist.report(), end="")
        this process is in no job of several ranks
    """
    return _core.dist.report(timeout) + _core.dist.server_waits()
