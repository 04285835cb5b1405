"""Programs as graphs in SVG, with repeated blocks folded, and Layers as trees: `paddle.utils.draw`."""

from __future__ import annotations

import html
import os
from typing import Any, NamedTuple

from paddle._basics.missing import load
from paddle._basics.names import GRAD_VAR_SUFFIX
from paddle._programs.program import Program

__all__ = ["draw"]

#: The longest block of operators that is recognised as repeated.
_LONGEST = 96
_WIDTH, _LINE, _GAP_X, _GAP_Y, _MARGIN = 190, 16, 24, 30, 12
_FILLS = {"feed": "#e8f0d8", "parameter": "#f6ecd2", "op": "#dde8f6", "folded": "#e9e2f3"}


class _Node(NamedTuple):
    kind: str  # feed, op or folded
    lines: list[str]
    ops: range  # places in the block


def _runs(types: list[str], least: int = 4) -> list[tuple[int, int, int]]:
    """The sequence as (start, length, repetitions), where equal blocks follow each other; single items from `least`
    times on."""
    found, i = [], 0
    while i < len(types):
        best = (1, 1)
        for length in range(1, min(_LONGEST, (len(types) - i) // 2) + 1):
            if types[i] != types[i + length]:
                continue
            times = 1
            while types[i : i + length] == types[i + times * length : i + (times + 1) * length]:
                times += 1
            worth = length > 1 or times >= least
            if times > 1 and worth and length * (times - 1) > best[0] * (best[1] - 1):
                best = (length, times)
        found.append((i, *best))
        i += best[0] * best[1]
    return found


def _label(block: Any, op: Any) -> str:
    out = next((n for n in op.output_arg_names if n in block.vars), None)
    shape = list(getattr(block.vars[out], "shape", ())) if out is not None else []
    return f"{op.type}  {shape}" if shape else op.type


def _nodes(block: Any, ops: list) -> list[_Node]:
    def line(op: Any) -> list[str]:
        parameters = [n for n in op.input_arg_names if getattr(block.vars.get(n), "persistable", False)]
        return [_label(block, op), *(f"  {n} {list(block.vars[n].shape)}" for n in parameters[:3])]

    nodes = []
    for start, length, times in _runs([op.type for op in ops]):
        lines = [text for op in ops[start : start + length] for text in line(op)]
        if times > 1:
            lines = [f"{times} x", *lines]
        nodes.append(_Node("folded" if times > 1 else "op", lines, range(start, start + length * times)))
    return nodes


def _edges(nodes: list[_Node], ops: list, feeds: dict[str, int]) -> set[tuple[int, int]]:
    producer, edges = dict(feeds), set()  # type: ignore[var-annotated]
    for k, node in enumerate(nodes):
        for i in node.ops:
            edges.update((producer[n], k) for n in ops[i].input_arg_names if producer.get(n, k) != k)
            producer.update(dict.fromkeys(ops[i].output_arg_names, k))
    return edges


def _escape(text: str) -> str:
    return html.escape(text if len(text) <= 30 else text[:29] + "\u2026")


class _Picture:
    """Boxes and lines of one SVG."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.height = 0

    def box(self, x: int, y: int, kind: str, lines: list[str]) -> None:
        height = _LINE * len(lines) + 8
        title = html.escape("\n".join(lines))
        self.parts.append(
            f'<g><title>{title}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="4" '
            f'fill="{_FILLS[kind]}" stroke="#667"/>'
        )
        for i, line in enumerate(lines):
            indent = 8 + 6 * (len(line) - len(line.lstrip()))
            self.parts.append(f'<text x="{x + indent}" y="{y + _LINE * (i + 1)}">{_escape(line.strip())}</text>')
        self.parts.append("</g>")
        self.width, self.height = max(self.width, x + _WIDTH), max(self.height, y + height)

    def line(self, x1: int, y1: int, x2: int, y2: int) -> None:
        bend = max(10, (y2 - y1) // 2)
        self.parts.append(
            f'<path d="M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}" fill="none" stroke="#889" '
            'marker-end="url(#a)"/>'
        )

    def text(self) -> str:
        width, height = self.width + _MARGIN, self.height + _MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
            '<defs><marker id="a" markerWidth="7" markerHeight="6" refX="6" refY="3" orient="auto">'
            '<path d="M0,0 L7,3 L0,6 z" fill="#889"/></marker></defs>' + "".join(self.parts) + "</svg>\n"
        )


def _forward(block: Any) -> list:
    """The operators without feeds, fetches, gradients and updates."""
    return [
        op
        for op in block.ops
        if op.type not in ("feed", "fetch")
        and not any(GRAD_VAR_SUFFIX in n for n in (*op.input_arg_names, *op.output_arg_names))
    ]


def program_svg(program: Any) -> str:
    """The forward operators of a Program's first block as an SVG text."""
    block = program.global_block()
    ops = _forward(block)
    made = {n for op in ops for n in op.output_arg_names}
    read = dict.fromkeys(n for op in ops for n in op.input_arg_names if n not in made)
    feeds = [n for n in read if n in block.vars and not block.vars[n].persistable]
    nodes = _nodes(block, ops)
    places = {name: -1 - i for i, name in enumerate(feeds)}
    edges = _edges(nodes, ops, places)
    depth = dict.fromkeys(places.values(), 0)
    for k in range(len(nodes)):
        before = [depth[a] for a, b in edges if b == k]
        depth[k] = 1 + max(before) if before else 0
    rows: dict[int, list[int]] = {}
    for k, row in depth.items():
        rows.setdefault(row, []).append(k)
    shown = {-1 - i: _Node("feed", [f"{n}  {list(block.vars[n].shape)}"], range(0)) for i, n in enumerate(feeds)}
    shown.update(enumerate(nodes))
    picture = _Picture()
    corners, y = {}, _MARGIN
    for row in sorted(rows):
        for column, k in enumerate(rows[row]):
            x = _MARGIN + column * (_WIDTH + _GAP_X)
            corners[k] = (x, y)
            picture.box(x, y, shown[k].kind, shown[k].lines)
        y += max(_LINE * len(shown[k].lines) + 8 for k in rows[row]) + _GAP_Y
    for a, b in sorted(edges):
        (x1, y1), (x2, y2) = corners[a], corners[b]
        picture.line(x1 + _WIDTH // 2, y1 + _LINE * len(shown[a].lines) + 8, x2 + _WIDTH // 2, y2)
    return picture.text()


def _count(layer: Any) -> int:
    total = 0
    for parameter in layer.parameters():
        size = 1
        for n in parameter.shape:
            size *= n
        total += size
    return total


def _described(name: str, layer: Any) -> str:
    own = layer.extra_repr()
    return f"{name + ': ' if name else ''}{type(layer).__name__}{f'({own})' if own else ''}"


def layer_svg(layer: Any) -> str:
    """The tree of a Layer, with numbers of parameters, as an SVG text; equal neighbours are folded."""
    picture = _Picture()

    def add(name: str, layer: Any, depth: int, y: int, times: int) -> int:
        lines = [_described(name, layer), f"  {_count(layer):,} parameters"]
        if times > 1:
            lines.insert(0, f"{times} x")
        x = _MARGIN + depth * 40
        picture.box(x, y, "folded" if times > 1 else "op", lines)
        bottom = y + _LINE * len(lines) + 8
        below = bottom + 10
        children = list(layer.named_children())
        texts = [repr(child) for _, child in children]
        for start, length, repeated in _runs(texts, 2):
            for child_name, child in children[start : start + length]:
                picture.parts.append(
                    f'<path d="M{x + 14},{bottom} V{below + 12} H{x + 40}" fill="none" stroke="#889"/>'
                )
                below = add(child_name, child, depth + 1, below, repeated)
        return below

    add("", layer, 0, _MARGIN, 1)
    return picture.text()


def layer_html(layer: Any, name: str = "") -> str:
    """The tree of a Layer, with numbers of parameters, as nested lists that open and close."""
    head = f"<code>{html.escape(_described(name, layer))}</code> {_count(layer):,} parameters"
    children = list(layer.named_children())
    if not children:
        return f"<div style='margin-left:1.2em'>{head}</div>"
    inner = "".join(layer_html(child, child_name) for child_name, child in children)
    opened = " open" if not name else ""
    return f"<details style='margin-left:1.2em'{opened}><summary>{head}</summary>{inner}</details>"


def draw(target: Any, path: Any = None, input_spec: Any = None) -> str:
    """A Program's graph or a Layer's tree as SVG.

    Forward operators that repeat, such as the blocks of a network, are drawn once with their number.

    Args:
        target (Program|Layer): what is drawn.
        path (str, optional): the file that is written; its name ends in ``.svg``, or has no ending.
        input_spec (list of InputSpec|Tensor, optional): of a Layer: draws the graph of its `forward` for these inputs.

    Returns:
        str: the text of the SVG.

    Raises:
        TypeError: for another target.
        ValueError: for a path with another ending.

    Examples:
        >>> import paddle
        >>> svg = paddle.utils.draw(paddle.nn.Linear(2, 3))
        >>> "9 parameters" in svg
        True
    """
    if path is not None and os.path.splitext(os.fspath(path))[1].lower() not in ("", ".svg"):
        raise ValueError(f"draw: path must end in .svg, the only format that is written, got {os.fspath(path)!r}")
    if isinstance(target, Program):
        svg = program_svg(target)
    elif not (hasattr(target, "named_children") and hasattr(target, "parameters")):
        raise TypeError(f"draw: target must be a Program or a Layer, got {type(target).__name__}")
    elif input_spec is not None:
        svg = program_svg(_traced(target, input_spec))
    else:
        svg = layer_svg(target)
    if path is not None:
        with open(os.fspath(path), "w", encoding="utf-8") as file:
            file.write(svg)
    return svg


def _traced(layer: Any, input_spec: Any) -> Any:
    given = list(input_spec) if isinstance(input_spec, (list, tuple)) else [input_spec]
    spec = load("paddle.static:InputSpec")
    specs = [spec.from_tensor(s, name=f"x{i}") if hasattr(s, "numpy") else s for i, s in enumerate(given)]
    with load("paddle.hapi.export:inference_program")(layer, specs) as (program, _, _):
        return program
