"""No operator crashes, hangs or reports an internal error on broken arguments (see robust_child.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paddle import _core

CHILD = Path(__file__).with_name("robust_child.py")
OPS = sorted({op["type"] for op in _core.op_table()})
GROUPS = 8


@pytest.mark.parametrize("group", range(GROUPS))
def test_broken_arguments(group: int, tmp_path: Path) -> None:
    left = OPS[group::GROUPS]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    wrong: list[str] = []
    turn = 0
    while left:
        log = tmp_path / f"log{turn}"
        turn += 1
        done = subprocess.run(
            [sys.executable, str(CHILD), str(log), *left], env=env, capture_output=True, text=True, timeout=600
        )
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        wrong += [line["wrong"] for line in lines if "wrong" in line]
        finished = {line["done"] for line in lines if "done" in line}
        left = [op for op in left if op not in finished]
        if done.returncode == 0:
            break
        last = [line for line in lines if "call" in line][-1:]
        assert last, f"the child did not start:\n{done.stderr[-3000:]}"
        wrong.append(f"exit {done.returncode}: {last[0]['call']}: {done.stderr[-300:]}")
        left = [op for op in left if op != last[0]["op"]]
    assert not left or done.returncode == 0
    assert not wrong, f"{len(wrong)} calls:\n" + "\n".join(wrong[:60])
