"""Functions of fluid.core by which the loaders of 2.0.2 monitor their worker processes."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Sequence

__all__ = [
    "_set_process_pids",
    "_erase_process_pids",
    "_throw_error_if_process_failed",
    "_set_process_signal_handler",
]

_processes: dict[int, tuple[int, ...]] = {}


def _set_process_pids(key: int, pids: Sequence[int]) -> None:
    """Registers the processes of a loader.

    Args:
        key (int): the id of the loader.
        pids (list|tuple of int): its processes.
    """
    _processes[key] = tuple(pids)


def _erase_process_pids(key: int) -> None:
    """Unregisters the processes of a loader."""
    _processes.pop(key, None)


def _throw_error_if_process_failed() -> None:
    """Raises SystemError for the first registered process that has failed, and unregisters its loader."""
    for key, pids in list(_processes.items()):
        for pid in pids:
            try:
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                continue
            if ended is None:
                continue
            if ended.si_code == os.CLD_EXITED:
                if not ended.si_status:
                    continue
                how = f"exited with code {ended.si_status}; what it wrote to stderr says why"
            else:
                how = f"was killed by signal: {signal.strsignal(ended.si_status)}"
                if ended.si_status == signal.SIGBUS:
                    how += "; perhaps /dev/shm is full (use_shared_memory=False does without)"
            _erase_process_pids(key)
            raise SystemError(f"(Fatal) the DataLoader's process {pid} {how}")


def _set_process_signal_handler() -> None:
    """In a worker: SIGSEGV, SIGBUS and SIGFPE print a traceback before they end it."""
    faulthandler.enable()
