"""Mutated model files: every one runs or raises, no process ends and none hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mutable_models import KINDS

CHILD = Path(__file__).with_name("mutate_child.py")


def serve(kind: str, first: int, count: int, limit: float) -> str:
    done = subprocess.run(
        [sys.executable, str(CHILD), kind, str(first), str(count)],
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:] or ["nothing"]
    assert done.returncode == 0, f"{last[0]}: exit {done.returncode}\n{done.stderr[-2000:]}"
    return last[0]


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_models_run_or_raise(kind):
    assert serve(kind, 0, 60, 120).startswith("ran")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 1000))
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_thousand_mutated_models(kind, first):
    assert serve(kind, first, 1000, 900).startswith("ran")
