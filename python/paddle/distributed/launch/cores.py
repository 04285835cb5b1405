"""The partition of a node's cores over its processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def _key(cpu: int) -> tuple[int, int, int]:
    """A sort key: package, core, thread."""
    folder = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return int((folder / "physical_package_id").read_text()), int((folder / "core_id").read_text()), cpu
    except (OSError, ValueError):
        return 0, cpu, cpu


def divide(processes: int, cpus: set[int] | None = None, local_rank: int = 0, local_size: int = 1) -> list[list[int]]:
    """The cores of each of `processes` processes of this launcher, the `local_rank`th of `local_size` on this node.

    Adjacent cores of a package go to one process. With fewer cores than processes no process is bound: every list is
    empty.
    """
    if cpus is None:
        cpus = os.sched_getaffinity(0)
    everybody = processes * local_size
    # A process manager that bound this launcher to some cores has already divided them among the launchers.
    if local_size > 1 and len(cpus) < (os.cpu_count() or 1):
        everybody, local_rank = processes, 0
    ordered = sorted(cpus, key=_key)
    if len(ordered) < everybody:
        return [[] for _ in range(processes)]
    at = [i * len(ordered) // everybody for i in range(everybody + 1)]
    first = local_rank * processes
    return [ordered[at[i] : at[i + 1]] for i in range(first, first + processes)]


def wanted(choice: str | None, env: Mapping[str, str]) -> bool:
    """Whether to divide: by the flag, else unless OMP_NUM_THREADS is set."""
    return choice == "divide" or choice is None and "OMP_NUM_THREADS" not in env


def threads(cores: list[int]) -> str:
    """OMP_NUM_THREADS of a process with these cores (empty: more processes than cores)."""
    return str(max(1, len(cores)))
