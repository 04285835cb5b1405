"""The functions and keywords of numpy's interface that launchers use exist in CuPy, which is imported by this
interpreter or by that of OAR_CUPY_PYTHON; it needs no driver for that."""

import ast
import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import paddle
import pytest

PACKAGE = Path(paddle.__file__).parent / "_cuda"
# Functions that are looked up by name: rows of binary operators, comparisons, reductions and parts of complex numbers.
BY_NAME = """add subtract multiply divide less less_equal greater greater_equal logical_and logical_or logical_xor
logical_not isfinite isinf isnan argmax argmin all any real imag""".split()
# Methods of arrays that are no methods of other objects of the launchers.
METHODS = "astype reshape transpose swapaxes sum max mean any all copy view".split()

CHECK = """
import inspect, json, sys
module = __import__(sys.argv[1])
for name, keywords in json.load(sys.stdin):
    f = module
    try:
        for part in name.split("."):
            f = getattr(f, part)
    except AttributeError:
        print(f"{name}: does not exist")
        continue
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        continue
    if any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        continue
    for keyword in set(keywords) - set(parameters):
        print(f"{name}: no keyword {keyword}")
"""


def chain(node: ast.AST) -> str | None:
    """`linalg.inv` of the expressions xp.linalg.inv and call.xp.linalg.inv."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        if node.attr == "xp":
            return ".".join(reversed(names)) or None
        names.append(node.attr)
        node = node.value
    return ".".join(reversed(names)) if isinstance(node, ast.Name) and node.id == "xp" and names else None


@functools.cache
def used() -> list[tuple[str, list[str]]]:
    """Functions with the keywords of all their calls."""
    found: dict[str, set[str]] = {name: set() for name in BY_NAME}
    found.update({f"ndarray.{name}": set() for name in METHODS})
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in ("machine.py", "runtime.py"):  # they use CuPy's own interface (test_route.py)
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and (name := chain(node)) and not name.startswith("cuda"):
                found.setdefault(name, set())
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = chain(node.func)
                if name is None and node.func.attr in METHODS:
                    name = f"ndarray.{node.func.attr}"
                if name and not name.startswith("cuda"):
                    found.setdefault(name, set()).update(k.arg for k in node.keywords if k.arg)
    return sorted((name, sorted(keywords)) for name, keywords in found.items())


def check(module: str, python: str) -> str:
    given = json.dumps(used())
    done = subprocess.run([python, "-c", CHECK, module], input=given, capture_output=True, text=True, check=True)
    return done.stdout


def test_names_are_those_of_numpy():
    assert len(used()) > 60 and check("numpy", sys.executable) == ""


def test_names_are_those_of_cupy():
    python = os.environ.get("OAR_CUPY_PYTHON") or (sys.executable if importlib.util.find_spec("cupy") else None)
    if python is None:
        pytest.skip("CuPy is not installed: pip install cupy-cuda12x, or set OAR_CUPY_PYTHON")
    assert check("cupy", python) == ""


def test_a_missing_name_is_found():
    done = subprocess.run(
        [sys.executable, "-c", CHECK, "numpy"],
        input=json.dumps([("nothing", []), ("moveaxis", ["axes"])]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["nothing: does not exist", "moveaxis: no keyword axes"]
