"""Mutated model files: every one runs or raises, no process ends and none hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import paddle
import pytest
from paddle import nn
from paddle.static.nn import batch_norm, conv2d, fc

CHILD = Path(__file__).with_name("mutate_child.py")


def network(x):
    y = nn.functional.relu(batch_norm(conv2d(x, 4, 3, padding=1)))
    y = nn.functional.dropout(y, 0.3)
    return nn.functional.softmax(fc(paddle.reshape(y, [-1, 4 * 6 * 6]), 5))


def serve(folder: Path, first: int, count: int, limit: float) -> str:
    done = subprocess.run(
        [sys.executable, str(CHILD), str(folder), str(first), str(count)],
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:] or ["nothing"]
    assert done.returncode == 0, f"{last[0]}: exit {done.returncode}\n{done.stderr[-2000:]}"
    return last[0]


@pytest.fixture
def folder(export, tmp_path):
    export(network, ([None, 3, 6, 6], "float32"))
    return tmp_path


def test_mutated_models_run_or_raise(folder):
    assert serve(folder, 0, 200, 120).startswith("ran")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20000, 1000))
def test_twenty_thousand_mutated_models(folder, first):
    assert serve(folder, first, 1000, 900).startswith("ran")
