"""Who may import whom: the rules of ARCHITECTURE.md, read from the sources."""
from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# crate -> crates of the engine that it may depend on; cargo itself refuses what a manifest does not name
CRATES = {
    "kernels": set(),
    "dist": set(),
    "core": {"kernels"},
    "comm": {"core", "dist"},
    "engine": {"core", "kernels", "comm", "dist"},
    "py": {"core", "kernels", "comm", "dist", "engine"},
}
# module of rust/core -> modules of it that it may name
CORE = {"base": set(), "tensor": {"base"}, "ir": {"base", "tensor"}, "op": {"base", "tensor", "ir"}}
GROUPS = sorted(p.parent.name for p in (ROOT / "rust" / "ops").glob("*/Cargo.toml"))

# later packages may import earlier ones
PYTHON = [
    "_basics", "_programs", "_dispatch", "_persistence", "tensor", "nn", "optimizer", "static", "jit", "distributed",
    "amp", "utils", "framework", "fluid",
]


def rust_files(folder: str):
    return sorted((ROOT / "rust" / folder).rglob("*.rs"))


def dependencies(folder: str) -> set[str]:
    """The engine's crates that a manifest names, for building and running (not for its tests)."""
    manifest = tomllib.loads((ROOT / "rust" / folder / "Cargo.toml").read_text())
    return {name.removeprefix("oar-") for name in manifest.get("dependencies", {}) if name.startswith("oar-")}


@pytest.mark.parametrize("crate", CRATES)
def test_crates_depend_on_lower_ones(crate):
    assert dependencies(crate) <= CRATES[crate]


@pytest.mark.parametrize("group", GROUPS)
def test_groups_of_operators_know_no_other_group(group):
    allowed = {"core", "kernels"} | ({"comm", "dist"} if group in ("comm", "ps") else set())
    assert dependencies(f"ops/{group}") <= allowed


def test_the_table_names_every_group():
    assert dependencies("ops") == {"core"} | {f"ops-{group}" for group in GROUPS}


@pytest.mark.parametrize("module", CORE)
def test_modules_of_core_name_only_lower_ones(module):
    allowed = CORE[module] | {module}
    for path in rust_files(f"core/{module}"):
        code = re.sub(r"//.*", "", path.read_text())
        named = set(re.findall(r"\bcrate::(\w+)::", code)) & set(CORE)
        assert named <= allowed, f"{path.relative_to(ROOT)} names {sorted(named - allowed)}"


def test_only_py_names_pyo3():
    for folder in ("core", "comm", "engine", "ops", "kernels", "dist"):
        for path in rust_files(folder):
            assert "pyo3" not in path.read_text(), path


def test_families_take_nothing_from_each_other():
    """What families share is in rust/core/op/parts; a family of several files is a folder."""
    for group in GROUPS:
        shared = {"loss": {"label"}}.get(group, set())
        families = {p.stem for p in (ROOT / "rust" / "ops" / group).glob("*.rs")} - {"lib"} - shared
        for path in rust_files(f"ops/{group}"):
            code = re.sub(r"//.*", "", path.read_text())
            family = path.stem if path.parent.name == group else path.parent.name
            inside = {p.stem for p in path.parent.glob("*.rs")} if path.parent.name != group else set()
            named = set(re.findall(r"\b(?:super|crate)::(\w+)", code)) & (families - {family} - inside)
            assert not named, f"{path.relative_to(ROOT)} takes from {sorted(named)}"


def test_operators_have_no_rust_tests():
    """Their crates are built without tests (tests/ops runs them through the table), so one would never run."""
    for path in rust_files("ops"):
        assert "#[cfg(test)]" not in path.read_text(), path


def test_nobody_imports_fluid():
    wrong = []
    for path in (ROOT / "python" / "paddle").rglob("*.py"):
        relative = path.relative_to(ROOT / "python" / "paddle")
        if relative.parts[0] in ("fluid", "__init__.py"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.match(r"(from|import) paddle\.fluid\b|from \.+fluid\b", line):
                wrong.append(f"{relative}:{number}")
    assert not wrong, wrong


def test_python_packages_import_only_lower_ones():
    wrong = []
    for rank, package in enumerate(PYTHON):
        for path in (ROOT / "python" / "paddle" / package).rglob("*.py"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r"from paddle\.(\w+)|import paddle\.(\w+)", line)
                name = found and (found.group(1) or found.group(2))
                if name in PYTHON and PYTHON.index(name) > rank:
                    wrong.append(f"{path.relative_to(ROOT)}:{number} {line.strip()}")
    assert not wrong, wrong
