"""Random calls of every operator: none may crash, hang or report an internal error (see fuzz_child.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("fuzz_child.py")


def fuzz(log: Path, seed: int, calls: int, seconds: int) -> list[str]:
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    end = time.monotonic() + seconds
    wrong: list[str] = []
    first, turn = 0, 0
    while first < calls and time.monotonic() < end and len(wrong) < 400:
        out = log / f"log{turn}"
        turn += 1
        left = [str(n) for n in (seed, first, calls - first, max(1, int(end - time.monotonic())))]
        done = subprocess.run([sys.executable, str(CHILD), str(out), *left], env=env, capture_output=True, text=True)
        lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        wrong += [f"number {line['number']}: {line['wrong']}" for line in lines if "wrong" in line]
        if done.returncode == 0:
            break
        assert lines, f"the child did not start:\n{done.stderr[-3000:]}"
        last = lines[-1]
        wrong.append(f"number {last['number']}: exit {done.returncode}: {last.get('call')}: {done.stderr[-300:]}")
        first = last["number"] + 1
    return wrong


def report(wrong: list[str], seed: int) -> str:
    return f"seed {seed}, {len(wrong)} calls:\n" + "\n".join(wrong[:60])


def test_random_arguments(tmp_path: Path) -> None:
    wrong = fuzz(tmp_path, 1, 4000, 120)
    assert not wrong, report(wrong, 1)


@pytest.mark.slow
def test_random_arguments_for_long(tmp_path: Path) -> None:
    seed = int(os.environ.get("OAR_FUZZ_SEED", "2"))
    wrong = fuzz(tmp_path, seed, 10**9, int(os.environ.get("OAR_FUZZ_SECONDS", "180")))
    assert not wrong, report(wrong, seed)
