"""summary: a table of the parameters and operations of a Program's layers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

__all__ = ["summary"]

_ACTIVATIONS = ("sigmoid", "tanh", "relu", "leaky_relu", "prelu")


class _Row(NamedTuple):
    op: str
    shape: tuple[int, ...]
    out: tuple[int, ...]
    parameters: int
    flops: int


def _row(variables: Any, op: Any) -> _Row | None:
    """The statistics of an operator; None for operators that are not counted."""

    def shape(names: list[str]) -> tuple[int, ...]:
        return tuple(variables[names[0]].shape)

    kind = op.type
    if kind in ("conv2d", "depthwise_conv2d"):
        filters, x, out = shape(op.input("Filter")), shape(op.input("Input")), shape(op.output("Output"))
        each = math.prod(filters[1:]) + bool(op.input("Bias"))
        # One multiplication and one addition for each element of the filter.
        return _Row(kind, x, out, filters[0] * each, 2 * out[2] * out[3] * filters[0] * each)
    if kind == "pool2d":
        x, out = shape(op.input("X")), shape(op.output("Out"))
        return _Row(kind, x, out, 0, math.prod(out[1:]) * math.prod(op.attr("ksize")))
    if kind == "mul" and "fc" in op.output("Out")[0]:
        x, w, out = shape(op.input("X")), shape(op.input("Y")), shape(op.output("Out"))
        return _Row(kind, x, out, w[0] * w[1] + 1, w[0] * w[1])
    if kind in _ACTIVATIONS:
        x, out = shape(op.input("X")), shape(op.output("Out"))
        return _Row(kind, x, out, int(kind == "prelu"), math.prod(x[1:]))
    if kind == "batch_norm":
        x, out = shape(op.input("X")), shape(op.output("Y"))
        return _Row(kind, x, out, 2 * x[1], 2 * math.prod(x[1:]))
    return None


def _table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "+".join(["", *("-" * (w + 2) for w in widths), ""])
    text = ["|".join(["", *(f" {cell:>{w}} " for cell, w in zip(row, widths, strict=True)), ""]) for row in rows]
    return "\n".join([line, text[0], line, *text[1:], line])


def summary(main_prog: Any) -> None:
    """Prints convolutions, pools, fully connected layers, batch_norm and activations of a Program with their shapes (of
    one sample), parameters and operations per sample (Paddle 2.0: paddle.fluid.contrib.model_stat.summary).

    Args:
        main_prog (Program): the Program.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> main = fluid.Program()
        >>> with fluid.program_guard(main, fluid.Program()):
        ...     x = fluid.data("x", [None, 3, 8, 8])
        ...     y = fluid.layers.pool2d(fluid.layers.conv2d(x, 4, 3, bias_attr=False), 2)
        >>> fluid.contrib.model_stat.summary(main)
        +-----+--------+-----------+-----------+--------+-------+
        | No. |   TYPE |     INPUT |    OUTPUT | PARAMs | FLOPs |
        +-----+--------+-----------+-----------+--------+-------+
        |   0 | conv2d | (3, 8, 8) | (4, 6, 6) |    108 |  7776 |
        |   1 | pool2d | (4, 6, 6) | (4, 5, 5) |      0 |   400 |
        +-----+--------+-----------+-----------+--------+-------+
        Total PARAMs: 108(0.0001M)
        Total FLOPs: 8176(0.00G)
    """
    found = [_row(block.vars, op) for block in main_prog.blocks for op in block.ops]
    rows = [row for row in found if row is not None]
    cells = [["No.", "TYPE", "INPUT", "OUTPUT", "PARAMs", "FLOPs"]]
    for i, r in enumerate(rows):
        cells.append([str(i), r.op, str(r.shape[1:]), str(r.out[1:]), str(r.parameters), str(r.flops)])
    parameters, flops = sum(r.parameters for r in rows), sum(r.flops for r in rows)
    print(_table(cells))
    print(f"Total PARAMs: {parameters}({parameters / 1e6:.4f}M)")
    print(f"Total FLOPs: {flops}({flops / 1e9:.2f}G)")
