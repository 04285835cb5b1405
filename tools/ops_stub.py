"""Writes python/paddle/_ops.pyi, the signatures of the operator builtins, from the operator table.

    python tools/ops_stub.py           write the file
    python tools/ops_stub.py --check   exit with status 1 where the file is not up to date

The inputs of a builtin are its slots, in order; the attributes are keywords; a keyword with the name of an output slot
is an existing variable to write to. Operators whose names are keywords of Python (assert, while) are left out.
"""

from __future__ import annotations

import keyword
import sys
import textwrap
from pathlib import Path

from paddle import _core

PATH = Path(__file__).resolve().parent.parent / "python" / "paddle" / "_ops.pyi"
WIDTH = 120

HEAD = """\
# The operator builtins. Written by tools/ops_stub.py from the operator table: do not edit.
# fmt: off
from collections.abc import Sequence
from typing import Any

# A Variable or Tensor; in a duplicable slot (_Many) a list of these.
_One = Any
_Many = Any
"""

#: Python types of attributes, by their number in Paddle's AttrType
TYPES = (
    "int",
    "float",
    "str",
    "Sequence[int]",
    "Sequence[float]",
    "Sequence[str]",
    "bool",
    "Sequence[bool]",
    "Any",
    "int",
    "Sequence[Any]",
    "Sequence[int]",
    "Sequence[float]",
)


def parameters(row: dict) -> list[str]:
    """The parameters of a builtin, as text."""
    taken: set[str] = set()
    found = []

    def add(name: str, kind: str, default: bool) -> None:
        if name.isidentifier() and not keyword.iskeyword(name) and name not in taken:
            taken.add(name)
            found.append(f"{name}: {kind} = ..." if default else f"{name}: {kind}")

    optional = False
    for slot in row["inputs"]:
        optional = optional or slot["dispensable"]
        add(slot["name"], "_Many" if slot["duplicable"] else "_One", optional)
    found.append("*")
    for attr in row["attrs"]:
        add(attr["name"], TYPES[attr["type"]] + ("" if attr["required"] else " | None"), not attr["required"])
    for slot in row["outputs"]:
        add(slot["name"], "_Many" if slot["duplicable"] else "_One", True)
    return found[:-1] if found[-1] == "*" else found


def function(row: dict) -> str:
    """The definition of one builtin."""
    found = parameters(row)
    text = f"def {row['type']}({', '.join(found)}) -> Any: ..."
    if len(text) <= WIDTH:
        return text
    lines = textwrap.wrap(", ".join(found), WIDTH - 5, break_on_hyphens=False)
    return f"def {row['type']}(\n" + "".join(f"    {line}\n" for line in lines) + ") -> Any: ..."


def stub() -> str:
    """The text of the file."""
    rows = sorted((row for row in _core.op_table() if not keyword.iskeyword(row["type"])), key=lambda row: row["type"])
    return HEAD + "\n" + "\n".join(map(function, rows)) + "\n"


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        return int(PATH.read_text() != stub())
    PATH.write_text(stub())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
