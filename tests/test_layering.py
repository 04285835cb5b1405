"""Layering: the imports that ARCHITECTURE.md permits between crates, modules and packages, read from the sources."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from rust_arrows import Arrows, without_tests

ROOT = Path(__file__).resolve().parent.parent

# crate -> crates of the engine that it may depend on; cargo refuses crates that a manifest does not name
CRATES = {
    "kernels": set(),
    "net": set(),
    "core": {"kernels"},
    "ops/common": {"core", "kernels"},
    "comm": {"core", "net"},
    "ps": {"core", "net", "comm", "ops-common"},
    "engine": {"core", "kernels", "comm", "net"},
    "data": {"core"},
    "py": {"core", "kernels", "ops-common", "comm", "net", "ps", "engine", "data"},
}
# module of rust/core -> modules of it that it may name
CORE = {"base": set(), "tensor": {"base"}, "ir": {"base", "tensor"}, "op": {"base", "tensor", "ir"}}
GROUPS = sorted(p.parent.name for p in (ROOT / "rust" / "ops").glob("*/Cargo.toml") if p.parent.name != "common")

PACKAGE = ROOT / "python" / "paddle"

# The top-level modules of the Python package, lowest first: a module may import those before it.
PYTHON = """
    version check_import_scipy _ops _cuda _basics _programs _dispatch _persistence compat batch reader device amp utils
    dataset tensor regularizer nn metric optimizer static incubate inference jit io distributed framework hapi callbacks
    distribution vision text onnx sysconfig fluid legacy _later
""".split()

# The layers within a package, lowest first; modules that are not listed are above them.
WITHIN = {
    "nn": ["initializer", "functional", "layer"],
    "fluid": ["lr_decay", "layers", "dygraph"],
    "distributed": ["launch", "ps", "fleet"],
}

QUICK = "`import paddle` must not load it"

# Permitted imports inside functions: (importer, imported module), and the reason. A cycle is not a reason.
INSIDE = {
    ("_basics.place", "paddle._cuda"): "imported at the first use of CUDA: " + QUICK,
    ("_basics.missing", "paddle._basics.unavailable_names"): "only for an error: " + QUICK,
    ("_basics.missing", "paddle._basics.internal_reasons"): "only for an error: " + QUICK,
    ("_basics.import_hook", "paddle._basics.internal_reasons"): "only for an error: " + QUICK,
    ("legacy.numbers", "paddle._basics.one_element"): "imports numpy, at its first array: " + QUICK,
    ("_basics.numpy", "numpy"): "imported for the first array: " + QUICK,
    ("_dispatch.dygraph", "inspect"): "only to decorate a function: " + QUICK,
    ("_programs.operator", "linecache"): "only to build a Program: " + QUICK,
    ("_later.device", "paddle._cuda"): "imported at the first use of CUDA: " + QUICK,
    ("utils.profiler", "paddle._cuda"): "only for a profile of CUDA: " + QUICK,
    ("utils.profiler", "cupy"): "an optional package",
    ("_cuda.machine", "cupy"): "an optional package",
    ("distributed.mpi", "mpi4py"): "an optional package",
    ("distributed.nccl", "paddle._cuda"): "only to use NCCL: " + QUICK,
    ("distributed.nccl", "paddle._cuda.comm.rings"): "only to use NCCL: " + QUICK,
    ("check_import_scipy", "scipy.io"): "an optional package",
    ("_basics.fetch", "urllib.error"): "only to download: " + QUICK,
    ("_basics.fetch", "urllib.request"): "only to download: " + QUICK,
    ("onnx.proto", "onnx"): "an optional package",
    ("nn.layer.loss", "logging"): "only for a rare warning: " + QUICK,
    ("_later.vision_ops", "PIL"): "an optional package",
    ("hapi.visualdl", "visualdl"): "an optional package",
    ("distributed.fleet.dataset.columns", "pyarrow"): "an optional package",
    ("distributed.fleet.dataset.columns", "pyarrow.compute"): "an optional package",
    ("distributed.fleet.dataset.columns", "pyarrow.parquet"): "an optional package",
    ("hapi.history", "matplotlib.figure"): "an optional package",
    ("dataset.uci_housing", "matplotlib"): "an optional package",
    ("utils.plot", "matplotlib.pyplot"): "an optional package",
    ("utils.plot", "IPython"): "an optional package",
    ("fluid.incubate.fleet.base.role_maker", "mpi4py"): "an optional package",
    ("distributed.launch", "paddle.distributed.launch.main"): "the launcher: " + QUICK,
    ("distributed.launch.collective", "paddle._cuda"): "the launcher counts GPUs only if there is a driver",
    ("distributed.spawn", "argparse"): "only to start processes: " + QUICK,
    ("distributed.spawn", "multiprocessing.connection"): "only to start processes: " + QUICK,
    ("distributed.spawn", "paddle.distributed.launch.cause"): "the launcher: " + QUICK,
    ("distributed.spawn", "paddle.distributed.launch.collective"): "the launcher: " + QUICK,
    ("distributed.spawn", "paddle.distributed.launch.environment"): "the launcher: " + QUICK,
    ("distributed.spawn", "paddle.distributed.launch.guard"): "the launcher: " + QUICK,
    ("distributed.spawn", "paddle.distributed.launch.store"): "the launcher: " + QUICK,
}


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
def test_groups_of_operators_do_not_depend_on_each_other(group):
    allowed = {"core", "kernels", "ops-common"} | ({"comm", "net", "ps"} if group == "distributed" else set())
    assert dependencies(f"ops/{group}") <= allowed


def test_the_table_names_every_group():
    assert dependencies("ops") == {"core"} | {f"ops-{group}" for group in GROUPS}


@pytest.mark.parametrize("module", CORE)
def test_modules_of_core_name_only_lower_ones(module):
    allowed = CORE[module] | {module}
    for path in rust_files(f"core/src/{module}"):
        code = re.sub(r"//.*", "", path.read_text())
        named = set(re.findall(r"\bcrate::(\w+)::", code)) & set(CORE)
        assert named <= allowed, f"{path.relative_to(ROOT)} names {sorted(named - allowed)}"


def test_only_py_names_pyo3():
    for folder in ("core", "comm", "engine", "data", "ops", "kernels", "net", "ps"):
        for path in rust_files(folder):
            assert "pyo3" not in path.read_text(), path


# Operators of one family that are in several files: they may use each other.
FAMILIES = (
    {"scale", "sum"},  # the gradient of sum is the operator scale
    {"enumerate", "erase"},
    {"expand", "pool"},
    {"lod_reset", "reshape"},
)


def group_folders() -> list[Path]:
    """The folders of the groups of operators: crates, and folders with a list of families."""
    sources = [ROOT / "rust" / "ops" / group / "src" for group in GROUPS]
    inner = [path for folder in sources for path in folder.glob("*/mod.rs") if "pub static TABLES:" in path.read_text()]
    return sources + [path.parent for path in inner]


def test_families_do_not_use_each_other():
    """Families share code in rust/ops/common and in files without a table of operators; a large family is a folder."""
    for group in group_folders():
        families = {p.stem for p in group.glob("*.rs") if "pub static TABLE:" in p.read_text()}
        families |= {p.parent.name for p in group.glob("*/mod.rs")}
        for path in sorted(group.rglob("*.rs")):
            code = re.sub(r"//.*", "", path.read_text())
            family = path.stem if path.parent == group else path.parent.name
            inside = {p.stem for p in path.parent.glob("*.rs")} if path.parent != group else set()
            members = next((names for names in FAMILIES if family in names), {family})
            named = set(re.findall(r"\b(?:super|crate)::(\w+)", code)) & (families - members - inside)
            assert not named, f"{path.relative_to(ROOT)} takes from {sorted(named)}"


def test_every_rust_file_is_a_module_of_its_crate():
    """A file that no `mod` names is not compiled: it would be dead code."""
    sources = [p for p in (ROOT / "rust").rglob("*.rs") if not {"tests", "benches", "examples", "fuzz"} & set(p.parts)]
    named = {name for p in sources for name in re.findall(r"\bmod (\w+);", p.read_text())}
    stems = {p: p.parent.name if p.stem == "mod" else p.stem for p in sources}
    assert not [p for p, stem in stems.items() if stem not in named | {"lib", "main"}]


def rows(code: str, of: str) -> list[list[str]]:
    """The entries of each table `of` in a source."""
    code = re.sub(r"//.*", "", code)
    tables = re.findall(rf"\b{of}: &\[[^=]*\] = &\[(.*?)\];", code, re.S)
    return [[row.strip() for row in table.split(",") if row.strip()] for table in tables]


def test_tables_of_operators_have_no_duplicates():
    """A merge of two branches that add the same line duplicates it."""
    tables = []
    for path in rust_files("ops"):
        code = path.read_text()
        tables += [(str(path.relative_to(ROOT)), table) for name in ("TABLE", "TABLES") for table in rows(code, name)]
    assert len(tables) > 100 + len(GROUPS), "the tables are not written as this test reads them"
    twice = {where: sorted({row for row in table if table.count(row) > 1}) for where, table in tables}
    assert not {where: row for where, row in twice.items() if row}
    assert rows("TABLE: &[&Op] = &[&A, &B, // twice\n &A];", "TABLE") == [["&A", "&B", "&A"]]


def test_operators_have_no_rust_tests():
    """These crates are built without tests (tests/ops runs the operators), so a Rust test would never run."""
    for path in (path for group in GROUPS for path in rust_files(f"ops/{group}")):
        assert "#[cfg(test)]" not in path.read_text(), path


class Import(NamedTuple):
    importer: str
    target: str  # the module's file, if the name is a module
    line: int
    inside: bool  # a function


@cache
def modules() -> dict[str, Path]:
    """The modules of the package by name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """The imports below `node`, without those for type checkers only, and whether they are inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        else:
            yield from statements(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def imported_by_call(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(module, line) of each `import_module` of a module of the package: a literal, or what an f-string begins with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("import_module"):
            name: ast.AST = node.args[0]
            if isinstance(name, ast.JoinedStr) and name.values:
                name = name.values[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.startswith("paddle."):
                yield name.value.rstrip("."), node.lineno


def test_imports_by_call_are_found():
    code = 'importlib.import_module("paddle.fluid.io"); import_module(f"paddle.fluid.{x}"); import_module(name)'
    assert list(imported_by_call(ast.parse(code))) == [("paddle.fluid.io", 1), ("paddle.fluid", 1)]


@cache
def imports() -> tuple[Import, ...]:
    """Every import of every module; native modules count as none."""
    found = []
    for name, path in modules().items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        tree = ast.parse(path.read_text())
        found += [Import(name, target, line, True) for target, line in imported_by_call(tree)]
        for node, inside in statements(tree):
            if isinstance(node, ast.Import):
                targets = [a.name for a in node.names]
            else:
                base = node.module or ""
                if node.level:
                    base = ".".join(filter(None, [*package.split(".")[: package.count(".") + 2 - node.level], base]))
                whole = [f"{base}.{a.name}" for a in node.names]
                targets = [w if w in modules() or w == "paddle._core" else base for w in whole]
            found += [Import(name, t, node.lineno, inside) for t in targets if t != "paddle._core" and t != name]
    return tuple(found)


def at(i: Import) -> str:
    return f"{modules()[i.importer].relative_to(ROOT)}:{i.line} imports {i.target}"


def below_package(module: str) -> tuple[str, ...]:
    """The parts of a module's name below `paddle`."""
    return tuple(module.split(".")[1:])


def test_modules_import_only_lower_ones():
    wrong = []
    for i in imports():
        of, to = below_package(i.importer), below_package(i.target)
        if not of or not i.target.startswith("paddle"):
            continue  # the package itself is the top layer
        if of[0] == "_later" and not to:
            continue  # composed from the public API; the package imports it on first use only
        rank = PYTHON.index(of[0])
        if not to or PYTHON.index(to[0]) > rank:
            wrong.append(at(i))
        elif of[0] == to[0] and of[0] in WITHIN:
            within = WITHIN[of[0]]
            order = [within.index(p[1]) if len(p) > 1 and p[1] in within else len(within) for p in (of, to)]
            # a package's __init__ and its unlisted files may not import its layers
            if order[0] < order[1] < len(within):
                wrong.append(at(i))
    assert not wrong, wrong


def test_the_native_module_is_not_imported_from_the_package():
    """`import paddle._core as _core`: `from paddle import _core` imports from the package, which is the top layer."""
    for path in modules().values():
        for node, _ in statements(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "paddle" and path != PACKAGE / "__init__.py":
                assert "_core" not in [a.name for a in node.names], f"{path.relative_to(ROOT)}:{node.lineno}"


def test_every_module_has_a_layer():
    assert {below_package(name)[0] for name in modules() if below_package(name)} == set(PYTHON)


def test_imports_inside_functions_have_a_reason():
    found = {(i.importer.removeprefix("paddle."), i.target): i for i in imports() if i.inside}
    assert not [at(i) for key, i in found.items() if key not in INSIDE]
    assert not set(INSIDE) - set(found), "these imports no longer exist"


def cycles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one file (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(v: str) -> None:
        number[v] = low[v] = len(number)
        stack.append(v)
        for w in arrows[v]:
            if w not in number:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], number[w])
        if low[v] == number[v]:
            component = stack[stack.index(v) :]
            del stack[stack.index(v) :]
            if len(component) > 1:
                found.append(sorted(component))

    for v in arrows:
        if v not in number:
            visit(v)
    return found


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_no_cycle_of_files():
    arrows: dict[str, set[str]] = {name: set() for name in modules()}
    for i in imports():
        if i.target in arrows:
            arrows[i.importer].add(i.target)
    assert not cycles(arrows)


def test_code_after_a_module_of_tests_is_read():
    code = "use a; #[cfg(test)]\nmod x;\nuse b; #[cfg(test)] mod t { fn f() { '{'; \"}\" } } use c;"
    assert without_tests(code).split() == "use a; use b; use c;".split()


def test_no_cycle_of_rust_files():
    arrows = Arrows(ROOT / "rust").between_files()
    assert len(arrows) > 300 and sum(map(len, arrows.values())) > len(arrows)
    assert not cycles(arrows)


def test_sets_of_element_types_are_defined_once():
    """In `_basics/element_types.py`; a function that accepts all types of its operator reads the operator's row."""
    from paddle._basics import element_types

    known = {frozenset(v) for k, v in vars(element_types).items() if k.isupper()}
    wrong = []
    for name, path in modules().items():
        if name.startswith(("paddle._basics.", "paddle._cuda.")):
            continue
        tree = ast.parse(path.read_text())
        literals = [n.value for n in tree.body if isinstance(n, ast.Assign)]
        checks = ("check_dtype", "check_variable_and_dtype")
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) in checks]
        for node in [*literals, *(n.args[2] for n in calls if len(n.args) > 2)]:
            texts = [ast.unparse(e).strip("'") for e in node.elts] if isinstance(node, ast.List | ast.Tuple) else []
            if frozenset(texts) in known:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, wrong


def test_the_mode_is_read_by_one_function():
    """`in_static_mode` of `_basics/mode.py`: neither the native flag nor the public names are read in other modules."""
    for name, path in modules().items():
        if name == "paddle._basics.mode":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            native = isinstance(node, ast.Attribute) and ast.unparse(node) in (
                "_core.in_static_mode",
                "core.in_static_mode",
            )
            public = text.rpartition(".")[2] in ("in_dygraph_mode", "in_dynamic_mode")
            assert not native and not public, f"{path.relative_to(ROOT)}:{node.lineno} reads the mode"
