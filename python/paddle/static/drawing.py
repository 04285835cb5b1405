"""Writing of Programs as Graphviz files: operators are boxes, variables ellipses."""

from __future__ import annotations

import json
from collections.abc import Callable

from paddle._basics.names import EMPTY_VAR_NAME

__all__: list[str] = []


def draw(desc, path: str) -> None:
    """Writes block 0 of a ProgramDesc to the file `path`, for ``dot -Tsvg path``."""
    draw_block(desc.block(0), path)


def draw_block(block, path: str, marked: Callable[[str], bool] = lambda name: False) -> None:
    """Writes a BlockDesc to the file `path`; operators and variables whose names are in `marked` are orange.

    Each write of a variable is a new ellipse, so that all arrows go down.
    """
    lines, versions = list[str](), dict[str, int]()

    def node(name: str) -> str:
        return json.dumps(f"{name}:{versions[name]}")

    def declare(name: str) -> str:
        versions[name] = versions.get(name, -1) + 1
        lines.append(f"  {node(name)} [{look(name, marked(name))}];")
        return node(name)

    for number in range(block.op_size()):
        op = block.op(number)
        lines.append(f"  op_{number} [{look(op.type(), marked(op.type()))}, shape=box];")
        for name in dict.fromkeys(op.input_arg_names()):
            if name != EMPTY_VAR_NAME:
                lines.append(f"  {node(name) if name in versions else declare(name)} -> op_{number};")
        for name in dict.fromkeys(op.output_arg_names()):
            if name != EMPTY_VAR_NAME:
                lines.append(f"  op_{number} -> {declare(name)};")
    write(lines, path)


def look(name: str, marked: bool) -> str:
    """The attributes of a node: its label, and the colour of a marked one."""
    return f"label={json.dumps(name)}" + (", style=filled, fillcolor=orange" if marked else "")


def write(lines: list[str], path: str) -> None:
    """Writes a graph to the file `path`."""
    with open(path, "w") as f:
        f.write("\n".join(["digraph G {", *lines, "}"]) + "\n")
