"""The code blocks of README.md and docs/**/*.md run: each page in a process of its own, its blocks in order.

A comment before a block changes that:

    <!-- new process -->     the block begins another process
    <!-- file: NAME -->      the block is written to NAME, not run
    <!-- run -->             a shell block is run (shell blocks are only checked for syntax, targets and paths)
    <!-- output -->          the block is the end of what the last block printed ("..." stands for anything)
    <!-- no run: REASON -->  the block is checked for syntax only
    <!-- slow -->            the page's test is marked slow
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import paddle
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    p
    for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "api", "gallery", "project"} & set(p.relative_to(ROOT).parts[1:-1])
)
FENCE = re.compile(r"^(`{3,})([\w{}:-]*).*$")
MARK = re.compile(r"^<!-- (new process|file: \S+|run|output|no run: .+|slow) -->$")
SHELL = ("sh", "bash", "console")
END = "\x1e"


@dataclass
class Block:
    """A fenced block: its language, text, first line in the page, and the marks before it."""

    language: str
    text: str
    line: int
    marks: list[str]

    def mark(self, name: str) -> str | None:
        """The rest of the mark that begins with `name`; None without one."""
        return next((m[len(name) :].lstrip(": ") for m in self.marks if m.startswith(name)), None)


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page in order."""
    blocks: list[Block] = []
    marks: list[str] = []
    fence, language, start, text = "", "", 0, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if fence:
            if line == fence:
                blocks.append(Block(language, "\n".join(text) + "\n", start, marks))
                fence, marks = "", []
            else:
                text.append(line)
            continue
        found = FENCE.match(line)
        if found:
            fence, language, start, text = found[1], found[2] or "", number + 1, []
        elif MARK.match(line):
            marks = [*marks, line[5:-4].strip()]
        elif line.strip():
            marks = []
    assert not fence, f"{page}:{start}: the block does not end"
    return blocks


def environment() -> dict[str, str]:
    """The process's environment without a job's variables; `paddle` is the one under test."""
    job = ("PADDLE_", "OAR_JOB", "TRAINING_ROLE", "CPU_NUM", "FLAGS_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(job)}
    folders = [str(Path(paddle.__file__).parents[1]), env.get("PYTHONPATH", "")]
    bin_folder = str(Path(sys.executable).parent)
    return {
        **env,
        "PYTHONPATH": os.pathsep.join(f for f in folders if f),
        "PATH": bin_folder + os.pathsep + env.get("PATH", ""),
        "MPLBACKEND": "Agg",
    }


def run(command: list[str], folder: Path, where: str) -> str:
    """What the command prints; fails with its errors where its status is not 0."""
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{where}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def script_of(page: Path, blocks: list[Block]) -> str:
    """A script that runs the blocks in order, with END after the output of each; errors name the page's lines."""
    lines = ["import __main__"]
    for block in blocks:
        padded = "\n" * (block.line - 1) + block.text
        lines.append(f"exec(compile({padded!r}, {str(page)!r}, 'exec'), vars(__main__))")
        lines.append(f"print({END!r}, end='', flush=True)")
    return "\n".join(lines) + "\n"


def check_output(page: Path, expected: Block, printed: str) -> None:
    """`printed` ends with the expected text, in which "..." stands for anything."""
    pattern = ".*?".join(re.escape(part) for part in expected.text.strip().split("..."))
    found = re.search(pattern + r"\s*\Z", printed, re.S)
    assert found, f"{page.relative_to(ROOT)}:{expected.line}: printed was\n{printed[-2000:]}"


def check_shell(page: Path, block: Block) -> None:
    """Syntax; targets of make are in the Makefile; scripts of this repository exist."""
    text = re.sub(r"^\$ ", "", block.text, flags=re.M)
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    where = f"{page.relative_to(ROOT)}:{block.line}"
    assert done.returncode == 0, f"{where}: {done.stderr}"
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for target in re.findall(r"^make ([a-z][\w-]*)", text, re.M):
        assert target in targets, f"{where}: the Makefile has no target {target}"
    for path in re.findall(r"(?<![\w/.])((?:examples|benches|tools|tests|docs)/[\w/.-]+\.(?:py|sh|sbatch|yaml))", text):
        assert (ROOT / path).exists(), f"{where}: there is no {path}"


def run_page(page: Path, folder: Path) -> None:
    """Runs the blocks of one page."""
    group: list[Block] = []  # Python blocks of one process
    expected: list[tuple[int, Block]] = []  # number of a block in the group, and what it prints
    printed = ""  # by the last shell block

    def flush() -> None:
        if group:
            where = f"{page.relative_to(ROOT)}:{group[0].line}"
            script = script_of(page, group)
            outputs = run([sys.executable, "-W", "ignore", "-c", script], folder, where).split(END)
            for number, block in expected:
                check_output(page, block, outputs[number])
        group.clear()
        expected.clear()

    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        name = block.mark("file")
        if name is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(block.text)
        elif block.mark("output") is not None:
            if group:
                expected.append((len(group) - 1, block))
            else:
                check_output(page, block, printed)
        elif block.language == "python":
            if block.mark("no run") is not None:
                ast.parse(block.text)
                continue
            if block.mark("new process") is not None:
                flush()
            group.append(block)
        elif block.language in SHELL:
            check_shell(page, block)
            if block.mark("run") is not None:
                flush()
                printed = run(["bash", "-e", "-c", re.sub(r"^\$ ", "", block.text, flags=re.M)], folder, where)
    flush()


def parameters() -> list:
    """A page each; pages with a block marked slow are slow tests."""
    found = []
    for page in PAGES:
        blocks = blocks_of(page)
        if any(b.language in ("python", *SHELL) for b in blocks):
            marks = [pytest.mark.slow] if any(b.mark("slow") is not None for b in blocks) else []
            found.append(pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks))
    return found


@pytest.mark.parametrize("page", parameters())
def test_blocks(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_readme_cn_has_the_blocks_of_readme() -> None:
    def without_comments(name: str) -> list[tuple[str, str]]:
        return [(b.language, re.sub(r"\s+# .*", "", b.text)) for b in blocks_of(ROOT / name)]

    assert without_comments("README_cn.md") == without_comments("README.md")
