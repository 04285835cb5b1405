"""match_matrix_tensor and its gradient: bilinear similarities of every step of a sequence with every step of another.
The forms of a pair of sequences are one product of stacks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import strided
from ..call import Call, Declined, ctype, same_dtype
from ..math.gemm import product
from ..units import REALS


class _Pairs:
    """The pairs of sequences; results of a pair are [forms, steps of X, steps of Y]."""

    def __init__(self, call: Call) -> None:
        self.call, self.x, self.y, self.w = call, call.array("X"), call.array("Y"), call.array("W")
        same_dtype(self.x, self.y, self.w)
        ctype(self.x, REALS)
        self.of_x, self.of_y = call.level("X"), call.level("Y")
        if self.of_x.size != self.of_y.size or min(v.size for v in (self.x, self.y, self.w)) == 0:
            raise Declined
        self.rows, self.forms, self.width = self.x.shape[0], self.w.shape[1], self.w.shape[2]
        sizes = np.diff(self.of_x) * np.diff(self.of_y) * self.forms
        self.ends = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.matrix = self.w.reshape(self.w.shape[0], -1)

    def turned(self):
        """X times W: [rows, forms * width]."""
        return product(self.call, self.x, self.matrix)

    def of(self, turned, pair: int):
        """The rows of a pair, as [forms, steps, width]."""
        part = slice(int(self.of_x[pair]), int(self.of_x[pair + 1]))
        return turned.reshape(self.rows, self.forms, self.width)[part].transpose(1, 0, 2)

    def steps(self, y, pair: int):
        """The rows of Y of a pair."""
        return y[int(self.of_y[pair]) : int(self.of_y[pair + 1])]

    def results(self, flat, pair: int):
        m, n = (int(at[pair + 1] - at[pair]) for at in (self.of_x, self.of_y))
        return flat.reshape(-1)[self.ends[pair] : self.ends[pair + 1]].reshape(self.forms, m, n)

    def each(self) -> list[int]:
        """The pairs of which both sequences have steps."""
        return [i for i in range(self.of_x.size - 1) if self.ends[i] < self.ends[i + 1]]


def _forward(call: Call) -> dict:
    pairs = _Pairs(call)
    turned, out = pairs.turned(), call.empty((pairs.ends[-1], 1), pairs.x.dtype)
    for i in pairs.each():
        product(call, pairs.of(turned, i), pairs.steps(pairs.y, i), ty=True, out=pairs.results(out, i))
    call.set_lod("Out", [pairs.ends])
    return {"Out": out, "Tmp": turned.reshape(-1, 1)}


def _backward(call: Call) -> dict:
    pairs, d = _Pairs(call), call.array("Out@GRAD")
    same_dtype(pairs.x, d)
    if d.size != pairs.ends[-1]:
        raise Declined
    turned = pairs.turned()
    dturned, dy = (strided.full(call, v.shape, v.dtype) for v in (turned, pairs.y))
    for i in pairs.each():
        of_pair = pairs.results(d, i)
        product(call, of_pair, pairs.steps(pairs.y, i), out=pairs.of(dturned, i))
        for form in range(pairs.forms):
            to = pairs.steps(dy, i)
            product(call, of_pair[form], pairs.of(turned, i)[form], tx=True, beta=float(form > 0), out=to)
    made = {"Y@GRAD": dy}
    if call.wanted["X@GRAD"]:
        made["X@GRAD"] = product(call, dturned, pairs.matrix, ty=True)
    if call.wanted["W@GRAD"]:
        made["W@GRAD"] = product(call, pairs.x, dturned, tx=True).reshape(pairs.w.shape)
    return made


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "match_matrix_tensor": _forward,
    "match_matrix_tensor_grad": _backward,
}
