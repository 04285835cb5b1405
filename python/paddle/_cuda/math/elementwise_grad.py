"""Gradients of elementwise_add, sub, mul, div, max and min with Paddle's broadcasting, and `sum`, which accumulates
gradients: by the kernels of the formula table, of binary.py and of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import formula, strided
from ..call import Call, Declined, Rows, Shape, ctype, same_dtype
from ..units import FLOATS
from . import binary
from .elementwise import seen_shape
from .reduction import reduce


def _full(call: Call, value: Any, shape: tuple[int, ...]):
    """An operand with the elements of the result's shape; Declined if it was not kept."""
    if isinstance(value, (Shape, Rows)) or value is None:
        raise Declined
    return strided.expanded(call, value, shape)


def _product(join: str) -> Callable[..., Any]:
    """d * v or d / v, where v is repeated along a range of dimensions."""

    def term(call: Call, d, v):
        if isinstance(v, (Shape, Rows)) or v is None:
            raise Declined
        out = binary.apply(call, join, d, v, v.shape)
        return binary.apply(call, join, d, full := _full(call, v, d.shape), full.shape) if out is None else out

    return term


def _row(name: str) -> Callable[..., Any]:
    """A row of the formula table."""

    def term(call: Call, shape: tuple[int, ...], *values):
        return formula.apply(call, name, [_full(call, v, shape) for v in values], [])

    return term


def _compared(name: str) -> Callable[..., Any]:
    row = _row(name)
    return lambda call, x, y, out, d: row(call, d.shape, x, y, d)


_times, _over = _product("Times"), _product("Over")


def _negated(call: Call, x):
    return formula.apply(call, "scale", [x], [-1.0, 0.0])


def _same(call: Call, x, y, out, d):
    return d


# Operator -> the terms of X and of Y, functions of (call, x, y, out, d); y has as many dimensions as d.
_TERMS: dict[str, tuple[Callable, Callable]] = {
    "elementwise_add": (_same, _same),
    "elementwise_sub": (_same, _same),
    "elementwise_mul": (lambda c, x, y, o, d: _times(c, d, y), lambda c, x, y, o, d: _times(c, d, x)),
    "elementwise_div": (
        lambda c, x, y, o, d: _over(c, d, y),
        lambda c, x, y, o, d: _row("div_grad_y")(c, d.shape, y, o, d),
    ),
    "elementwise_max": (_compared("max_grad_x"), _compared("max_grad_y")),
    "elementwise_min": (_compared("min_grad_x"), _compared("min_grad_y")),
}


def _reduced(call: Call, term, shape: tuple[int, ...], seen: tuple[int, ...]):
    """The sum over the dimensions in which an operand, seen in the shape `seen`, was repeated."""
    axes = [i for i, (a, b) in enumerate(zip(term.shape, seen, strict=True)) if b == 1 and a != 1]
    return (reduce(call, term, axes, "Sum", 1) if axes else term).reshape(shape)


def _launch(op: str) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x, y, d = call.ins["X"], call.ins["Y"], call.array("Out@GRAD")
        if x is None or y is None or len(x.shape) < len(y.shape) or isinstance(x, Rows) or isinstance(y, Rows):
            raise Declined
        ctype(d, FLOATS)
        if d.size == 0:
            raise Declined
        shapes = tuple(x.shape), tuple(y.shape)
        seen = shapes[0], seen_shape(shapes[1], d.ndim, call.attrs["axis"])
        values = x, y if isinstance(y, Shape) else y.reshape(seen[1]), call.ins.get("Out"), d
        same_dtype(*(v for v in values if hasattr(v, "nbytes")))
        made: dict[str, Any] = {}
        for slot, term, shape, own in zip(("X@GRAD", "Y@GRAD"), _TERMS[op], shapes, seen, strict=True):
            if not call.wanted[slot]:
                continue
            # A term of a 16-bit type that is summed would be rounded twice.
            if d.dtype.itemsize == 2 and own != d.shape and term is not _same:
                raise Declined
            made[slot] = _reduced(call, term(call, *values), shape, own)
        if op == "elementwise_sub" and "Y@GRAD" in made:
            made["Y@GRAD"] = _negated(call, made["Y@GRAD"])
        return made

    return launch


def _sum(call: Call) -> dict:
    terms = call.ins["X"]
    if not terms or any(t is None or isinstance(t, (Rows, Shape)) for t in terms):
        raise Declined
    same_dtype(*terms)
    ctype(terms[0], binary.TYPES)
    # Of more than two terms of a 16-bit type the sum is rounded once, in float32.
    if any(t.shape != terms[0].shape for t in terms) or len(terms) > 2 and terms[0].dtype.itemsize == 2:
        raise Declined
    total = terms[0]
    for t in terms[1:]:
        made = binary.apply(call, "Plus", total, t, t.shape, None if total is terms[0] else total)
        if made is None:
            raise Declined
        total = made
    return {"Out": total}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {f"{op}_grad": _launch(op) for op in _TERMS}
LAUNCHERS["sum"] = _sum
