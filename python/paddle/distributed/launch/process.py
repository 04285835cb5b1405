"""A process of the job: start, state, signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping

from paddle.distributed.port_files import port_file

from .job import Process
from .logs import Log

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class Child:
    """A running or ended process. It leads its own process group; its id is not reused before `reap`."""

    def __init__(self, spec: Process, command: list[str], env: Mapping[str, str], log: Log | None):
        self.spec, self.log = spec, log
        # The exit code, or minus the signal; None while running.
        self.code: int | None = None
        self.stopped_by_us = False
        launcher, cores = os.getpid(), spec.cores

        def prepare() -> None:
            # terminates the process with the launcher, even without the guard
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != launcher:
                os._exit(1)
            if cores:
                os.sched_setaffinity(0, cores)

        out = log.file if log else None
        with warnings.catch_warnings():
            # Python 3.12 warns of a fork with threads; those of the store hold no Python locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._popen = subprocess.Popen(
                command,
                env={**env, **spec.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,
                preexec_fn=prepare,
            )
        self.pid = self._popen.pid
        self.started = time.monotonic()

    def poll(self) -> bool:
        """Whether it has ended since the last call."""
        if self.code is not None:
            return False
        info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None:
            return False
        self.code = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        return True

    def group(self, number: int) -> None:
        """Sends a signal to the process group, which exists until `reap`."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def handles(self, number: int) -> bool:
        """Whether it runs and handles a signal, which then does not end it."""
        if self.code is not None:
            return False
        try:
            with open(f"/proc/{self.pid}/status") as f:
                caught = next((line.split()[1] for line in f if line.startswith("SigCgt:")), "0")
        except OSError:
            return False
        return bool(int(caught, 16) >> (number - 1) & 1)

    def reap(self) -> None:
        self._popen.wait()
        # a killed server leaves its port file behind
        with contextlib.suppress(OSError):
            port_file(self.pid).unlink()
        if self.log:
            self.log.close()

    def ending(self) -> str:
        """How it ended, as part of a message."""
        if self.code is None:
            return "is running"
        if self.code >= 0:
            return f"exited with code {self.code}"
        return f"was ended by {signal_name(-self.code)}"

    @property
    def status(self) -> int:
        """The exit status as of a shell: 128 and the signal's number."""
        assert self.code is not None
        return self.code if self.code >= 0 else 128 - self.code


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def command(script: str, arguments: list[str], legacy: bool = False) -> list[str]:
    """The command line of a process; `legacy` runs the script by paddle.legacy."""
    runner = ["-m", "paddle.legacy"] if legacy else []
    return [sys.executable, "-u", *runner, script, *arguments]


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The common environment of all processes: without proxies, which would intercept their connections."""
    return {k: v for k, v in env.items() if k not in ("http_proxy", "https_proxy")}
