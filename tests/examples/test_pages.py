"""The samples of users' pages run as they are written, on CPU places where they say CUDA.

The pages lie outside of the repository: in ../shared/pages beside the checkout, or where OAR_PAGES says.
"""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(os.environ.get("OAR_PAGES") or Path(__file__).resolve().parents[3] / "shared" / "pages")
BEGIN, CHINESE, HEADING = "代码示例", re.compile(r"[\u4e00-\u9fff]"), re.compile(r"^\w+\(.*\)$")


def samples(page: str) -> list[str]:
    """The blocks of code: from the line that announces one to the next in Chinese, or the end."""
    lines = (PAGES / page).read_text().splitlines()
    found = []
    for start in [i + 1 for i, line in enumerate(lines) if line.strip() == BEGIN]:
        end = next((i for i in range(start, len(lines)) if CHINESE.search(lines[i])), len(lines))
        block = lines[start:end]
        # The heading of what is described next, a bare call of what no sample defines.
        while block and (not block[-1].strip() or HEADING.match(block[-1])):
            block.pop()
        found.append("\n".join(block).replace("use_cuda = True", "use_cuda = False"))
    return found


@pytest.mark.parametrize("number", range(3), ids=["class", "run", "drop_local_exe_scopes"])
def test_parallel_executor(number, tmp_path):
    if not PAGES.is_dir():
        pytest.skip(f"the pages are not in {PAGES}")
    code = samples("parallel_executor.txt")
    assert len(code) == 3 and all("ParallelExecutor(use_cuda=use_cuda" in one for one in code)
    env = {k: v for k, v in os.environ.items() if k != "CPU_NUM"}
    done = subprocess.run([sys.executable, "-c", code[number]], cwd=tmp_path, env=env, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
