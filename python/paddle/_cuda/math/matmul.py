"""mul, matmul, matmul_v2, bmm and mv, their gradients and second gradients, by cuBLAS (gemm.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import conversion, halves
from ..call import Call, Declined, same_dtype
from .gemm import product
from .reduction import reduce

# The second operand's slot where it is not Y.
_SECOND = {"mv": "Vec"}


def _matrix(array: Any, column: bool) -> Any:
    """A vector as one column or one row."""
    if array.ndim != 1:
        return array
    return array.reshape((-1, 1) if column else (1, -1))


def sum_to(call: Call, array: Any, shape: tuple[int, ...]) -> Any:
    """`array` summed over the leading dimensions in which `shape` was broadcast, by kernels that a recipe replays."""
    lead = array.ndim - len(shape)
    axes = [i for i, n in enumerate(array.shape) if i < lead or shape[i - lead] != n]
    while axes:
        # The last run of adjacent axes.
        run = [axes.pop()]
        while axes and axes[-1] == run[0] - 1:
            run.insert(0, axes.pop())
        left = tuple(1 if i in run else n for i, n in enumerate(array.shape))
        array = reduce(call, array, run, "Sum", 1).reshape(left)
    return array.reshape(shape)


class _Product:
    """The operands of a product as stacks of matrices; `batch` is the shape of the result's stack."""

    def __init__(self, call: Call) -> None:
        a, self.call, self.alpha = call.attrs, call, 1.0
        op = call.op.split("_grad")[0]
        self.second = _SECOND.get(op, "Y")
        self.x, self.y = call.array("X"), call.array(self.second)
        same_dtype(self.x, self.y)
        self.tx = self.ty = False
        if op == "mul":
            k, l = a["x_num_col_dims"], a["y_num_col_dims"]
            shape = self.x.shape[:k], self.y.shape[:l]
            self.mx = self.x.reshape(math.prod(shape[0]), math.prod(self.x.shape[k:]))
            self.my = self.y.reshape(math.prod(shape[1]), math.prod(self.y.shape[l:]))
        else:
            self.mx, self.my = _matrix(self.x, False), _matrix(self.y, True)
        if op == "matmul_v2":
            self.tx, self.ty = a["trans_x"] and self.x.ndim > 1, a["trans_y"] and self.y.ndim > 1
        elif op == "matmul":
            if any(v for k, v in a.items() if k.startswith("fused_")):
                raise Declined
            self.tx, self.ty, self.alpha = a["transpose_X"], a["transpose_Y"], a["alpha"]
            # Stacks of one size are multiplied in pairs, whatever their dimensions.
            if self.mx.ndim > 2 and self.my.ndim > 2:
                self.mx, self.my = (v.reshape(-1, *v.shape[-2:]) for v in (self.mx, self.my))
        self.batch = np.broadcast_shapes(self.mx.shape[:-2], self.my.shape[:-2])
        rows, columns = self.mx.shape[-1 if self.tx else -2], self.my.shape[-2 if self.ty else -1]
        if not self.tx and math.prod(self.my.shape[:-2]) == 1:
            # One product of all rows, and so are both gradients.
            rows, self.batch = rows * math.prod(self.batch), ()
            self.mx, self.my = self.mx.reshape(rows, self.mx.shape[-1]), self.my.reshape(self.my.shape[-2:])
        self.shape = *self.batch, rows, columns

    def of(self, x: Any, y: Any, tx: bool, ty: bool, **more: Any) -> Any:
        return product(self.call, x, y, tx=tx, ty=ty, alpha=self.alpha, **more)

    def forward(self, slot: str, pairs: list) -> Any:
        """The sum of the products of pairs of operands."""
        out = self.call.out(slot)
        for i, (x, y) in enumerate(pairs):
            mx, my = x.reshape(self.mx.shape), y.reshape(self.my.shape)
            self.of(mx, my, self.tx, self.ty, beta=float(i > 0), out=out.reshape(self.shape))
        return out

    def _gradient(self, slot: str, like: Any, pair: tuple, tx: bool, ty: bool) -> Any:
        """A product of matrices of the shape of `like`, summed over the dimensions in which that was broadcast."""
        x, y = pair
        if math.prod(like.shape[:-2]) == math.prod(self.batch):
            out = self.call.out(slot)
            self.of(x, y, tx, ty, out=out.reshape(*self.batch, *like.shape[-2:]))
            return out
        # Sums of 16-bit types are rounded once.
        half = like.dtype.name in halves.HALVES
        whole = self.of(x, y, tx, ty, dtype="float32" if half else None)
        if whole.size == 0:
            self.call.unrecorded()
        return conversion.convert(self.call, sum_to(self.call, whole, like.shape), like.dtype.name)

    def grad_x(self, slot: str, dout: Any, y: Any) -> Any:
        d, y = dout.reshape(self.shape), y.reshape(self.my.shape)
        if self.tx:
            return self._gradient(slot, self.mx, (y, d), self.ty, True).reshape(self.x.shape)
        return self._gradient(slot, self.mx, (d, y), False, not self.ty).reshape(self.x.shape)

    def grad_y(self, slot: str, dout: Any, x: Any) -> Any:
        d, x = dout.reshape(self.shape), x.reshape(self.mx.shape)
        if self.ty:
            return self._gradient(slot, self.my, (d, x), True, self.tx).reshape(self.y.shape)
        return self._gradient(slot, self.my, (x, d), not self.tx, False).reshape(self.y.shape)


def _forward(call: Call) -> dict:
    found = _Product(call)
    return {"Out": found.forward("Out", [(found.x, found.y)])}


def _backward(call: Call) -> dict:
    found, dout = _Product(call), call.array("Out@GRAD")
    same_dtype(found.x, dout)
    made, slots = {}, ("X@GRAD", f"{found.second}@GRAD")
    if call.wanted[slots[0]]:
        made[slots[0]] = found.grad_x(slots[0], dout, found.y)
    if call.wanted[slots[1]]:
        made[slots[1]] = found.grad_y(slots[1], dout, found.x)
    return made


def _second(call: Call) -> dict:
    found, dout, made = _Product(call), call.array("DOut"), {}
    ddx, ddy = (None if call.ins.get(slot) is None else call.array(slot) for slot in ("DDX", "DDY"))
    same_dtype(found.x, dout, *(v for v in (ddx, ddy) if v is not None))
    if call.wanted["DDOut"]:
        pairs = [(ddx, found.y)] if ddx is not None else []
        pairs += [(found.x, ddy)] if ddy is not None else []
        made["DDOut"] = found.forward("DDOut", pairs)
    # The gradients of X and Y, with a second gradient in the other operand's place; zeros where it is absent.
    for slot, other, like, grad in (("DX", ddy, found.x, found.grad_x), ("DY", ddx, found.y, found.grad_y)):
        if call.wanted[slot]:
            made[slot] = call.xp.zeros(like.shape, like.dtype) if other is None else grad(slot, dout, other)
    return made


LAUNCHERS = dict.fromkeys(("mul", "matmul", "matmul_v2", "bmm", "mv"), _forward)
LAUNCHERS.update({f"{op}_grad": _backward for op in tuple(LAUNCHERS)})
LAUNCHERS.update(dict.fromkeys(("mul_grad_grad", "matmul_grad_grad", "matmul_v2_grad_grad"), _second))
