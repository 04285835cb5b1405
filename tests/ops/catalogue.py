"""Operators with cases: tables of tests/ops, and tests of tests/ops and tests/dist marked `operators`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# tests/dist covers operators that need several processes.
FOLDERS = (HERE, HERE.parent / "dist")


def _marks(name: str) -> Iterator[Any]:
    files = [file for folder in FOLDERS for file in sorted(folder.rglob("test_*.py"))]
    # The folder that the tests import from.
    for folder in {*FOLDERS, HERE.parents[1] / "tools", *(file.parent for file in files)}:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    for file in files:
        for value in list(vars(importlib.import_module(file.stem)).values()):
            yield from (mark for mark in getattr(value, "pytestmark", []) if mark.name == name)


def cases() -> dict[str, list[Any]]:
    """The valid cases by operator."""
    found: dict[str, list[Any]] = {}
    for mark in _marks("parametrize"):
        for c in mark.args[1] if len(mark.args) > 1 else []:
            if hasattr(c, "op") and hasattr(c, "inputs") and c.raises is None:
                found.setdefault(c.op, []).append(c)
    return found


def covered() -> set[str]:
    """Operators covered by tests outside of the tables."""
    return {name for mark in _marks("operators") for name in mark.args}
