"""Which process of a job this is, and joining the others."""

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
    """What the environment variables of a launched process say about it.

    They are read when the object is made: ``PADDLE_TRAINER_ID``, ``PADDLE_TRAINERS_NUM``, ``FLAGS_selected_gpus``,
    ``PADDLE_TRAINER_ENDPOINTS``, ``PADDLE_CURRENT_ENDPOINT`` and ``FLAGS_nccl_nrings``.

    Raises:
        ValueError: a variable is not the number it should be.

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
        """How many processes there are (``PADDLE_TRAINERS_NUM``, 1 by default)."""
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
    """What `prepare_context` of 1.8 gave to `DataParallel`: the numbers of `ParallelEnv`, to be changed at will."""

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
        strategy (ParallelStrategy, optional): what the environment says, by default.

    Returns:
        ParallelStrategy|None: the strategy, or None for a process that is alone.

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
# The groups that have been asked for, by number: each keeps the work it has started.
_groups: dict[int, Any] = {}
# What new_group made: such a group ends with its last user.
_made_groups: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def _get_global_parallel_env() -> ParallelEnv:
    global _global_parallel_env
    if _global_parallel_env is None:
        _global_parallel_env = ParallelEnv()
    return _global_parallel_env


def init_parallel_env() -> None:
    """Join the other processes of the job; a process that is alone is left as it is.

    Call it once at the start of a script that `paddle.distributed.launch` or `spawn` runs in several processes. Where
    the others are found is in the environment: the launcher sets ``PADDLE_MASTER`` and listens there; where the
    variables are set by hand, rank 0 listens, at ``PADDLE_MASTER`` or at the first of the ``PADDLE_TRAINER_ENDPOINTS``.
    With ``OAR_BACKEND=mpi`` and mpi4py, mpirun starts the processes, and their data goes through MPI. With
    ``OAR_BACKEND=nccl`` and CuPy, what lies on CUDA devices goes through NCCL.

    Raises:
        ValueError: a variable of the environment is missing or wrong.
        RuntimeError: the others did not come in time (``OAR_INIT_TIMEOUT`` seconds, 300 by default).

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
    """The end of this process in its job. One that ends by an error, for which others may wait, spares the interpreter
    the search for circles among all objects: a tenth of a second of CPU."""
    joined = _core.dist.joined()
    _core.dist.leave()
    if joined and getattr(sys, "last_value", None) is not None:
        gc.freeze()


_watching = False
# Also for a process that Programs have made join.
atexit.register(_leave)


def watch_the_end() -> None:
    """Leave in order when the process ends; tell the others of an exception; SIGUSR1 prints the debug report."""
    global _watching
    if _watching:
        return
    _watching = True
    # A child of multiprocessing ends without calling what atexit knows.
    multiprocessing.util.Finalize(None, _core.dist.leave, exitpriority=-100)
    before = sys.excepthook

    def tell(kind: type[BaseException], value: BaseException, trace: types.TracebackType | None) -> None:
        abort(value)
        before(kind, value, trace)

    sys.excepthook = tell
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, lambda *_: print(report(), file=sys.stderr, end="", flush=True))


def abort(reason: BaseException | str) -> None:
    """Tell the other processes that this one cannot go on, and why: their waits end with a RuntimeError of it."""
    if isinstance(reason, BaseException):
        text = str(reason).strip().split("\n")[0]
        cause.tell(reason)
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
    """How many processes the job has (``PADDLE_TRAINERS_NUM``, 1 by default).

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
    """Who is in what operation, and waits for whom, a line for each: for a job that seems to stand still.

    In a launched job the signal SIGUSR1 prints it.

    Args:
        timeout (float): how many seconds to wait for what the other ranks know; then it is of this rank alone.

    Examples:
        >>> import paddle.distributed as dist
        >>> print(dist.report(), end="")
        this process is in no job of several ranks
    """
    return _core.dist.report(timeout) + _core.dist.server_waits()
