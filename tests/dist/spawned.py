"""Functions that the tests of spawn run in other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def rank() -> int:
    return int(os.environ["PADDLE_TRAINER_ID"])


def environment(*args):
    names = ("PADDLE_", "OAR_JOB", "FLAGS_", "OMP_NUM_THREADS", "http_proxy")
    return {k: v for k, v in os.environ.items() if k.startswith(names)} | {
        "cores": sorted(os.sched_getaffinity(0)),
        "args": args,
    }


def large():
    return bytes([rank()]) * (1 << 22)


def fail(how):
    if rank() == 1:
        if how == "raise":
            raise KeyError("fails on purpose")
        if how == "unpicklable":
            raise type("Local", (Exception,), {})("fails on purpose")
        if how == "lambda":
            return lambda: 0
        if isinstance(how, int):
            sys.exit(how)
        os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)


def stubborn(folder):
    """Ignores SIGTERM, and has a child that does, too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-S", "-c", wait])
    path = Path(folder) / f"pids.{rank()}"
    written = path.with_name(f"{path.name}.new")
    written.write_text(f"{os.getpid()} {child.pid}")
    written.rename(path)
    time.sleep(60)


def short(seconds):
    time.sleep(seconds)
    return rank()
