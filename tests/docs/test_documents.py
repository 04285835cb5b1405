"""Documents agree with the tree: paths and links exist, the table of flags is current, the short pages are short."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = sorted(ROOT.glob("*.md"))
DOCS = sorted(p for p in (ROOT / "docs").rglob("*.md") if not {"_build", "api", "gallery", "project"} & set(p.parts))
PATH = re.compile(r"`((?:rust|python|tests|docs|benches|examples|tools|spec)/[\w./*{},<>-]*)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def names(pages: list[Path]) -> list:
    return [pytest.param(p, id=str(p.relative_to(ROOT))) for p in pages]


@pytest.mark.parametrize("page", names([p for p in TOP if p.name in ("ARCHITECTURE.md", "CONTRIBUTING.md")] + DOCS))
def test_paths_exist(page: Path) -> None:
    if "performance" in page.parts or page.name == "before-after.md":
        pytest.skip("a dated record")
    missing = []
    for path in PATH.findall(page.read_text()):
        if "<" in path or "{" in path:  # a pattern
            path = path.split("<")[0].split("{")[0].rpartition("/")[0]
        if not list(ROOT.glob(path.rstrip("/"))):
            missing.append(path)
    assert not missing


@pytest.mark.parametrize("page", names(TOP + DOCS))
def test_links_lead_somewhere(page: Path) -> None:
    generated = ("api/", "gallery/", "../api/", "../gallery/")
    for link in LINK.findall(page.read_text()):
        target = link.split("#")[0]
        if not target or re.match(r"\w+:", target) or target.startswith(generated):
            continue
        assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {link}"


def anchors(page: Path) -> set[str]:
    """The fragments that lead to the headings of a page, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", names(TOP + DOCS))
def test_fragments_of_links_are_headings(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        target, _, fragment = link.partition("#")
        if not fragment or re.match(r"\w+:", target):
            continue
        other = page.parent / target if target else page
        assert fragment in anchors(other), f"{page.relative_to(ROOT)}: {link}"


def test_the_chinese_readme_has_the_code_of_the_english_one() -> None:
    def code(name: str) -> list[str]:
        blocks = re.findall(r"^```(?:python|sh)\n(.*?)^```", (ROOT / name).read_text(), re.M | re.S)
        return [re.sub(r"\s+#.*", "", block) for block in blocks]

    assert code("README_cn.md") == code("README.md")


@pytest.mark.parametrize("name", ["README.md", "README_cn.md"])
def test_numbers_of_operators_and_names(name: str) -> None:
    """What the README says is there is what `make status` prints, and no public name is missing."""
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "status.py")], capture_output=True, text=True)
    operators, names = (re.search(rf"{what} +(\d+) / (\d+)", done.stdout) for what in ("operators", "API names"))
    assert operators and names and names[1] == names[2], done.stdout + done.stderr
    text = (ROOT / name).read_text()
    assert {operators[1], operators[2], f"{int(names[2]):,}"} <= set(re.findall(r"[\d,]*\d", text))


@pytest.mark.parametrize("name", ["README.md", "README_cn.md", "ARCHITECTURE.md", "docs/dev/architecture.md"])
def test_at_most_150_lines(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= 150


def test_flags_are_described() -> None:
    script = ROOT / "docs" / "_ext" / "flags_table.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


PREFIXES = {"fluid": "paddle.fluid", "fleet": "paddle.distributed.fleet", "F": "paddle.nn.functional"}
DOTTED = re.compile(r"`((?:paddle|fluid|fleet|F)(?:\.[A-Za-z_]\w*)+)")


def resolves(name: str) -> bool:
    """Whether a dotted name is an attribute or a module."""
    first, _, rest = name.partition(".")
    parts = f"{PREFIXES.get(first, first)}.{rest}".split(".")
    thing = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(thing, part):
            try:
                importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return False
        thing = getattr(thing, part)
    return True


@pytest.mark.parametrize("page", names([p for p in TOP + DOCS if p.name != "CHANGELOG.md"]))
@pytest.mark.filterwarnings("ignore")
def test_names_exist(page: Path) -> None:
    found = set(DOTTED.findall(page.read_text()))
    ends = (".py", ".md")
    assert not {n for n in found if not n.endswith(ends) and not resolves(n)}


def test_picture_of_speed_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    draw = importlib.import_module("draw_speed")
    data = json.loads(draw.DEFAULT.read_text())
    assert draw.PICTURE.read_text() == draw.svg(data)
    for name in ("README.md", "README_cn.md"):
        numbers = re.findall(r"[\d.]+", (ROOT / name).read_text().split("|---|---:|---:|")[1].split("\n\n")[0])
        for row in data["rows"]:
            for value in row["oar"] + row["peer"]:
                assert any(float(n) == value for n in numbers if n.strip(".")), (name, row["name"], value)
