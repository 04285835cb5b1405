"""Pictures of graphs: the nodes of a core.Graph for Graphviz, and Graphviz itself where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterable
from typing import Any

from .drawing import look, write

__all__ = ["draw_nodes", "render"]


def draw_nodes(nodes: Iterable[Any], marked: Collection[Any], path: str) -> None:
    """Writes nodes of a graph to the file `path`: operators are boxes, variables ellipses, `marked` ones are orange."""
    lines, drawn = [], sorted(nodes, key=lambda n: n.id())
    for node in drawn:
        shape = ", shape=box" if node.is_op() else ""
        lines.append(f"  node_{node.id()} [{look(node.name(), node in marked)}{shape}];")
    lines += [f"  node_{node.id()} -> node_{after.id()};" for node in drawn for after in node.outputs]
    write(lines, path)


def render(path: str, kind: str = "pdf") -> str | None:
    """Makes a picture of a file of Graphviz, beside it; its path, or None when there is no ``dot`` or it fails."""
    dot = shutil.which("dot")
    picture = f"{os.path.splitext(path)[0]}.{kind}"
    # the argument list goes to the program as it is: no shell reads the path
    command = [dot or "", f"-T{kind}", os.path.abspath(path), "-o", picture]
    done = dot and subprocess.run(command, capture_output=True, check=False)
    return picture if done and done.returncode == 0 else None
