"""Pages of users' documentation: where they are, and their samples as Python.

The pages are not in the repository: OAR_PAGES names their folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

PAGES = Path(os.environ.get("OAR_PAGES") or Path(__file__).resolve().parents[3] / "shared" / "pages")
BEGIN, CHINESE, HEADING = "代码示例", re.compile(r"[\u4e00-\u9fff]"), re.compile(r"^\w+\(.*\)$")


def text_of(page: str) -> str:
    """The text of a page; skips the test when there is none."""
    path = PAGES / page
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    return path.read_text()


def samples(page: str) -> list[str]:
    """The blocks of code: from the line that announces one to the next in Chinese, or the end."""
    lines = text_of(page).splitlines()
    found = []
    for start in [i + 1 for i, line in enumerate(lines) if line.strip() == BEGIN]:
        end = next((i for i in range(start, len(lines)) if CHINESE.search(lines[i])), len(lines))
        block = lines[start:end]
        # The heading of what is described next, a bare call of what no sample defines.
        while block and (not block[-1].strip() or HEADING.match(block[-1])):
            block.pop()
        found.append("\n".join(block).replace("use_cuda = True", "use_cuda = False"))
    return found


def numbered(page: str) -> list[str]:
    """The blocks with numbered lines. The page lost their indentation: a suite lasts to the end of its block."""
    found: list[list[str]] = []
    for line in text_of(page).splitlines():
        numbered_line = re.match(r"\s*(\d+)\. (.*)", line)
        if not numbered_line:
            continue
        if numbered_line[1] == "1":
            found.append([])
        found[-1].append(numbered_line[2])
    made = []
    for block in found:
        depth, lines = 0, []
        for line in block:
            lines.append("    " * depth + line.replace("CUDAPlace(0)", "CPUPlace()"))
            depth += line.endswith(":")
        made.append("\n".join(lines) + "\n")
    return made
