"""Who may import whom: the rules of ARCHITECTURE.md, read from the sources."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# module -> modules of the crate that it may name
RUST = {
    "base": set(),
    "tensor": {"base"},
    "ir": {"base", "tensor"},
    "op": {"base", "tensor", "ir"},
    "ops": {"base", "tensor", "ir", "op"},
    "autograd": {"base", "tensor", "ir", "op", "ops"},
    "graph": {"base", "tensor", "ir", "op", "ops"},
    "py": {"base", "tensor", "ir", "op", "ops", "autograd", "graph"},
}

# later packages may import earlier ones
PYTHON = [
    "_basics", "_programs", "_dispatch", "_persistence", "tensor", "nn", "optimizer", "static", "jit", "distributed",
    "amp", "utils", "framework", "fluid",
]


def rust_files(module: str):
    return sorted((ROOT / "rust" / module).rglob("*.rs"))


@pytest.mark.parametrize("module", RUST)
def test_rust_modules_name_only_lower_ones(module):
    allowed = RUST[module] | {module}
    for path in rust_files(module):
        code = re.sub(r"//.*", "", path.read_text())
        named = set(re.findall(r"\bcrate::(\w+)::", code)) & set(RUST)
        assert named <= allowed, f"{path.relative_to(ROOT)} names {sorted(named - allowed)}"


def test_only_py_names_pyo3():
    for module in RUST:
        if module == "py":
            continue
        for path in rust_files(module):
            assert "pyo3" not in path.read_text(), path


def test_kernels_and_dist_stand_alone():
    for crate in ("kernels", "dist"):
        for path in (ROOT / "rust" / crate).rglob("*.rs"):
            assert not re.search(r"\boar::", path.read_text()), path


def test_only_the_table_names_families():
    # What is no operator's own: helpers that are shared, and the native indexing's twin of slice and set_value.
    shared = {"mod", "common", "complex", "half", "norm", "raw", "region"}
    families = {p.stem for p in rust_files("ops")} - shared
    for module in ("autograd", "graph", "py"):
        for path in rust_files(module):
            code = re.sub(r"//.*", "", path.read_text())
            named = set(re.findall(r"\bops::(\w+)::", code)) & families
            allowed = {"creation", "slice"} if path.name == "indexing.rs" else {"program"}
            assert named <= allowed, f"{path.relative_to(ROOT)} names operator families {sorted(named)}"


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
