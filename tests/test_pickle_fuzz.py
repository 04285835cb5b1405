"""Mutated pickles of every kind of dtype: each load returns an object or raises UnpicklingError (see the child)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("pickle_fuzz_child.py")


def wrong(seed: int, count: int, piece: int = 50_000) -> list[str]:
    found: list[str] = []
    for first in range(0, count, piece):
        loads = min(piece, count - first)
        command = [sys.executable, "-W", "ignore", str(CHILD), str(seed), str(first), str(loads)]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        if done.returncode or not lines or not lines[-1].startswith(f"{loads} loads"):
            found.append(f"from {first}: exit {done.returncode}\n{done.stderr[-2000:]}")
        found += [line for line in lines if ": " in line]
    return found


def test_mutated_pickles():
    assert wrong(1, 4000) == []


@pytest.mark.slow
def test_a_million_mutated_pickles():
    """`OAR_PICKLES` sets the number, `OAR_FUZZ_SEED` the seed."""
    seed = int(os.environ.get("OAR_FUZZ_SEED", "2"))
    assert wrong(seed, int(os.environ.get("OAR_PICKLES", "1000000"))) == []
