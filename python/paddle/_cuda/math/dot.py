"""dot and its gradient, by the kernels of elementwise products and of sums."""

from __future__ import annotations

from typing import Any

from ..call import Call, Declined, same_dtype
from .binary import apply
from .reduction import reduce


def _times(call: Call, x: Any, y: Any) -> Any:
    """x * y; y has the shape of x, or one element for each vector."""
    made = apply(call, "Times", x, y, y.shape)
    if made is None:
        raise Declined
    return made


def _dot(call: Call) -> dict:
    x, y = call.array("X"), call.array("Y")
    same_dtype(x, y)
    return {"Out": reduce(call, _times(call, x, y), [x.ndim - 1], "Sum", 1).reshape(*x.shape[:-1], 1)}


def _dot_grad(call: Call) -> dict:
    x, y, d = call.array("X"), call.array("Y"), call.array("Out@GRAD")
    same_dtype(x, y, d)
    d = d.reshape(*x.shape[:-1], 1)
    other = {"X@GRAD": y, "Y@GRAD": x}
    return {slot: _times(call, v, d) for slot, v in other.items() if call.wanted[slot]}


LAUNCHERS = {"dot": _dot, "dot_grad": _dot_grad}
