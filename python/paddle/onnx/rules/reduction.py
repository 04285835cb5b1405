"""Sums, means, extremes and norms over dimensions."""

from __future__ import annotations

import math

from ..call import Call
from ..registry import rule
from .creation import diagonal

_KINDS = {"sum": "Sum", "mean": "Mean", "max": "Max", "min": "Min", "prod": "Prod", "all": "Min", "any": "Max"}


def over(c: Call, dims: str = "dim", keep: str = "keep_dim") -> tuple[list[int] | None, bool]:
    """The dimensions that are reduced (None: all), and whether they are kept."""
    given = c.attr(dims)
    rank = c.rank()
    axes = [d % rank for d in (given if isinstance(given, (list, tuple)) else [given])]
    every = c.attr("reduce_all") or not axes or len(set(axes)) == rank
    return (None if every else axes), c.attr(keep)


def reduced(c: Call, kind: str, x: str, axes: list[int] | None, keep: bool) -> str:
    """The reduced value; of shape [1] where no dimension remains."""
    out = c.reduce(kind, x, axes, keep)
    return c.reshape(out, [1]) if axes is None and not keep else out


@rule(*(f"reduce_{name}" for name in _KINDS))
def _reduce(c: Call) -> None:
    name = c.desc.type.removeprefix("reduce_")
    x, dtype = c.x(), c.dtype()
    if name in ("all", "any"):
        x = c.cast(x, "int32")
    elif dtype == "bool":
        x = c.cast(x, "int64")
    out = reduced(c, _KINDS[name], x, *over(c))
    to = c.attr("out_dtype")
    if name in ("all", "any"):
        out = c.cast(out, "bool")
    elif to >= 0:
        out = c.cast(out, c.element_type("out_dtype"))
    c.set("Out", out)


@rule("mean")
def _mean(c: Call) -> None:
    c.set("Out", reduced(c, "Mean", c.x(), None, False))


@rule("logsumexp")
def _logsumexp(c: Call) -> None:
    axes, keep = over(c, "axis", "keepdim")
    x = c.x()
    # onnxruntime does not subtract the maximum
    top = c.reduce("Max", x, axes, True)
    total = c.reduce("Sum", c.op("Exp", c.op("Sub", x, top)), axes, True)
    out = c.op("Add", c.op("Log", total), top)
    if not keep:
        out = c.reshape(out, [1]) if axes is None else c.squeeze(out, axes)
    c.set("Out", out)


@rule("frobenius_norm")
def _frobenius_norm(c: Call) -> None:
    c.set("Out", reduced(c, "L2", c.x(), *over(c)))


def _norm(c: Call, x: str, p: float, axes: list[int] | None, keep: bool) -> str:
    if p in (1.0, 2.0):
        return reduced(c, "L1" if p == 1.0 else "L2", x, axes, keep)
    size = c.op("Abs", x)
    if math.isinf(p):
        return reduced(c, "Max" if p > 0 else "Min", size, axes, keep)
    if p == 0:
        return reduced(c, "Sum", c.cast(c.op("Not", c.op("Equal", x, c.like(0.0))), c.dtype()), axes, keep)
    total = reduced(c, "Sum", c.op("Pow", size, c.like(p)), axes, keep)
    return c.op("Pow", total, c.like(1 / p))


@rule("p_norm")
def _p_norm(c: Call) -> None:
    axes: list[int] | None = None if c.attr("asvector") else [c.attr("axis") % c.rank()]
    if axes is not None and c.rank() == 1:
        axes = None
    out = _norm(c, c.x(), c.attr("porder"), axes, c.attr("keepdim"))
    c.set("Out", c.reshape(out, []) if not c.out_shape("Out") else out)


@rule("dist")
def _dist(c: Call) -> None:
    c.set("Out", _norm(c, c.op("Sub", c.x(), c.x("Y")), c.attr("p"), None, False))


@rule("l1_norm")
def _l1_norm(c: Call) -> None:
    c.set("Out", reduced(c, "L1", c.x(), None, False))


@rule("squared_l2_norm")
def _squared_l2_norm(c: Call) -> None:
    c.set("Out", reduced(c, "SumSquare", c.x(), None, False))


@rule("cumsum")
def _cumsum(c: Call) -> None:
    x, axis = c.x(), c.attr("axis")
    if c.attr("flatten"):
        x, axis = c.flat(x), 0
    exclusive, reverse = int(c.attr("exclusive")), int(c.attr("reverse"))
    c.set("Out", c.op("CumSum", x, c.const(axis), exclusive=exclusive, reverse=reverse))


@rule("trace")
def _trace(c: Call) -> None:
    rank = c.rank("Input")
    first, second = sorted((c.attr("axis1") % rank, c.attr("axis2") % rank))
    picked = diagonal(c, c.x("Input"), c.shape("Input"), c.attr("offset"), first, second)
    out = c.reduce("Sum", picked, [rank - 2, rank - 1], False)
    c.set("Out", c.reshape(out, [1]) if rank == 2 else out)
