"""Pictures of graphs: writing a core.Graph as a Graphviz file, and rendering it with ``dot``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterable
from typing import Any

from .drawing import look, write

__all__ = ["draw_nodes", "render"]


def draw_nodes(nodes: Iterable[Any], marked: Collection[Any], path: str) -> None:
    """Writes nodes of a graph to the file `path`: operators are boxes, variables ellipses, nodes in `marked` orange."""
    lines, drawn = [], sorted(nodes, key=lambda n: n.id())
    for node in drawn:
        shape = ", shape=box" if node.is_op() else ""
        lines.append(f"  node_{node.id()} [{look(node.name(), node in marked)}{shape}];")
    lines += [f"  node_{node.id()} -> node_{after.id()};" for node in drawn for after in node.outputs]
    write(lines, path)


def render(path: str, kind: str = "pdf") -> str | None:
    """Renders a Graphviz file to a picture in the same folder; returns its path, or None when ``dot`` is absent or
    fails.
    """
    dot = shutil.which("dot")
    picture = f"{os.path.splitext(path)[0]}.{kind}"
    # without a shell, so that the path is not interpreted
    command = [dot or "", f"-T{kind}", os.path.abspath(path), "-o", picture]
    done = dot and subprocess.run(command, capture_output=True, check=False)
    return picture if done and done.returncode == 0 else None
