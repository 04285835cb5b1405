"""fluid.net_drawer: the graph of startup and main Program in Graphviz format."""

from __future__ import annotations

import itertools
import os
from typing import Any

__all__ = ["draw_graph", "parse_graph"]

GRAPH_STYLE: dict[str, str] = {"rankdir": "TB"}
OP_STYLE: dict[str, str] = {"shape": "oval", "color": "#0F9D58", "style": "filled", "fontcolor": "#FFFFFF"}
VAR_STYLE: dict[str, str] = {}

_numbers = itertools.count()


def _quoted(text: Any) -> str:
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _attributes(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={_quoted(value)}" for key, value in values.items())


class Graph:
    """A directed graph in the DOT language; ``dot -Tsvg FILE`` draws it.

    Args:
        name (str): its name.
        filename (str): the file that `save` writes.
        graph_attr, node_attr, edge_attr (dict, optional): attributes of Graphviz.
    """

    def __init__(
        self, name: str, filename: str, graph_attr: Any = None, node_attr: Any = None, edge_attr: Any = None
    ) -> None:
        self.name, self.filename = name, filename
        defaults = (("graph", graph_attr), ("node", node_attr), ("edge", edge_attr))
        self.body = [f"{kind} [{_attributes(values)}]" for kind, values in defaults if values]

    def node(self, name: str, label: str | None = None, **attributes: Any) -> None:
        """Adds a node."""
        self.body.append(f"{_quoted(name)} [{_attributes({'label': label or name, **attributes})}]")

    def edge(self, tail_name: str, head_name: str, label: str = "", **attributes: Any) -> None:
        """Adds an edge."""
        values = _attributes({"label": label, **attributes})
        self.body.append(f"{_quoted(tail_name)} -> {_quoted(head_name)} [{values}]")

    @property
    def source(self) -> str:
        """The text in the DOT language."""
        lines = "".join(f"    {line};\n" for line in self.body)
        return f"digraph {_quoted(self.name)} {{\n{lines}}}\n"

    def save(self, filename: str | None = None) -> str:
        """Writes the file and returns its name."""
        path = filename or self.filename
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)
        return path


def parse_graph(program: Any, graph: Graph, var_dict: dict[str, str], **kwargs: Any) -> None:
    """Adds the operators of a Program's first block to a graph.

    Args:
        program (Program): the Program.
        graph (Graph): gets nodes and edges.
        var_dict (dict): from variables to the nodes that compute them; it is extended. Others come from "Feed".
    """
    for block in program.blocks:
        for name in block.vars:
            var_dict.setdefault(name, "Feed")
    for op in program.global_block().ops:
        node = f"{op.type}_{next(_numbers)}"
        graph.node(node)
        for slot in op.input_names:
            for name in op.input(slot):
                if name in var_dict:
                    graph.edge(var_dict[name], node, f"{slot}({name})")
        for name in op.output_arg_names:
            var_dict[name] = node


def draw_graph(startup_program: Any, main_program: Any, **kwargs: Any) -> Graph:
    """The graph of two Programs, written to a file.

    Args:
        startup_program, main_program (Program): the Programs.
        filename (str, optional): the file, by default "<number>.gv".
        graph_attr, node_attr, edge_attr (dict, optional): attributes of Graphviz.

    Examples:
        >>> import os, tempfile
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> main, startup = fluid.Program(), fluid.Program()
        >>> with fluid.program_guard(main, startup):
        ...     y = fluid.layers.relu(fluid.data("x", [2, 3]))
        >>> path = os.path.join(tempfile.mkdtemp(), "net.gv")
        >>> graph = fluid.net_drawer.draw_graph(startup, main, filename=path)
        >>> "relu_" in open(path).read()
        True
    """
    number = next(_numbers)
    styles = {"graph_attr": GRAPH_STYLE, "node_attr": OP_STYLE, "edge_attr": VAR_STYLE}
    merged = {name: {**style, **kwargs.get(name, {})} for name, style in styles.items()}
    graph = Graph(str(number), os.fspath(kwargs.get("filename") or f"{number}.gv"), **merged)
    known: dict[str, str] = {}
    parse_graph(startup_program, graph, known)
    parse_graph(main_program, graph, known)
    graph.save()
    return graph
