"""Starting the launcher from tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = str(Path(__file__).with_name("launched.py"))
# Variables of the test's environment that would affect the launcher.
FOREIGN = (
    "PADDLE_",
    "OAR_JOB",
    "FLAGS_START_PORT",
    "SLURM_",
    "OMPI_",
    "PMI",
    "MASTER_",
    "WORLD_SIZE",
    "RANK",
    "NODE",
    "POD_IP",
    "TRAINING_ROLE",
    "TRAINER",
    "OMP_NUM_THREADS",
    "DISTRIBUTED_",
    "CUDA_VISIBLE_DEVICES",
    "JOB_COMPLETION_INDEX",
)


def clean_environment(**more: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return env | {"CUDA_VISIBLE_DEVICES": ""} | more


def command(flags: list[str], *script: str, module: str = "paddle.distributed.launch") -> list[str]:
    return [sys.executable, "-m", module, *flags, SCRIPT, *script]


def launch(
    flags: list[str],
    *script: str,
    cwd: Path,
    env: dict[str, str] | None = None,
    timeout: float = 300,
    module: str = "paddle.distributed.launch",
) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end."""
    return subprocess.run(
        command(flags, *script, module=module),
        cwd=cwd,
        env=clean_environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def begin(flags: list[str], *script: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts a job in its own process group, as a shell does."""
    return subprocess.Popen(
        command(flags, *script),
        cwd=cwd,
        env=clean_environment(**(env or {})),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def known(folder: Path) -> dict[str, dict]:
    """The output of `launched.env`, by role and rank."""
    return {p.name.removesuffix(".json"): json.loads(p.read_text()) for p in sorted(folder.glob("*.json"))}


def pids(folder: Path, ranks: int, job: subprocess.Popen[str] | None = None) -> list[int]:
    """The process ids written by all ranks; waits for them."""
    limit = time.monotonic() + 300
    while time.monotonic() < limit:
        found = [folder / f"pids.{r}" for r in range(ranks)]
        if all(p.exists() for p in found):
            return [int(n) for p in found for n in p.read_text().split()]
        assert job is None or job.poll() is None, job.communicate()
        time.sleep(0.02)
    raise AssertionError("the ranks did not start")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def gone(numbers: list[int], seconds: float) -> list[int]:
    """Those that are left after at most so many seconds."""
    limit = time.monotonic() + seconds
    left = numbers
    while time.monotonic() < limit:
        left = [p for p in left if alive(p)]
        if not left:
            break
        time.sleep(0.02)
    return left


def kill(number: int) -> None:
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return
