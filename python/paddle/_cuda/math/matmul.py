"""Matrix products and their gradients, by cuBLAS through CuPy.

A stack of matrices times one matrix is one product of all rows, and so are its two gradients. Transposed operands are
views: cuBLAS takes those of two dimensions by its flags.
"""

from __future__ import annotations

import math

from ..call import Call, Declined, same_dtype


def _turned(x, trans: bool):
    return x.swapaxes(-1, -2) if trans else x


def _sum_to(xp, grad, shape):
    """Sum a gradient over batch dimensions that were broadcast."""
    lead = grad.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(i + lead for i, d in enumerate(shape) if d == 1 and grad.shape[i + lead] != 1)
    return (grad.sum(axis=axes, keepdims=False) if axes else grad).reshape(shape)


class _Product:
    """The operands of a matrix product as stacks of matrices."""

    def __init__(self, call: Call) -> None:
        a, self.call, self.alpha = call.attrs, call, 1.0
        self.x, self.y = call.array("X"), call.array("Y")
        same_dtype(self.x, self.y)
        if self.x.dtype.kind != "f" or 0 in (*self.x.shape, *self.y.shape):
            raise Declined
        if call.op.startswith("mul"):
            k, l = a["x_num_col_dims"], a["y_num_col_dims"]
            self.mx = self.x.reshape(math.prod(self.x.shape[:k]), -1)
            self.my = self.y.reshape(math.prod(self.y.shape[:l]), -1)
            self.shape = self.x.shape[:k] + self.y.shape[l:]
            self.tx = self.ty = False
            return
        v2 = call.op.startswith("matmul_v2")
        self.tx, self.ty = (a["trans_x"], a["trans_y"]) if v2 else (a["transpose_X"], a["transpose_Y"])
        if not v2:
            if any(v for k, v in a.items() if k.startswith("fused_")):
                raise Declined
            self.alpha = a["alpha"]
        # Vectors, and the operator mul's rules for them, run on the CPU.
        if self.x.ndim < 2 or self.y.ndim < 2:
            raise Declined
        if not v2 and self.x.ndim != self.y.ndim and min(self.x.ndim, self.y.ndim) != 2:
            raise Declined
        self.mx, self.my, self.shape = self.x, self.y, None
        if self.y.ndim == 2 and not self.tx:
            columns = self.y.shape[0] if self.ty else self.y.shape[1]
            self.mx, self.shape = self.x.reshape(-1, self.x.shape[-1]), (*self.x.shape[:-1], columns)

    def of(self, x, y):
        return self.call.xp.matmul(x, y)

    def forward(self):
        out = self.of(_turned(self.mx, self.tx), _turned(self.my, self.ty))
        if self.alpha != 1.0:
            out *= out.dtype.type(self.alpha)
        return out if self.shape is None else out.reshape(self.shape)

    def backward(self, dout):
        """The gradients of X and Y, as functions."""
        xp = self.call.xp
        x, y = _turned(self.mx, self.tx), _turned(self.my, self.ty)
        dout = dout.reshape((x.shape[0], y.shape[1])) if self.shape is not None else dout
        if self.alpha != 1.0:
            dout = dout * dout.dtype.type(self.alpha)

        turned = dout.swapaxes(-1, -2)

        def dx():
            grad = self.of(y, turned) if self.tx else self.of(dout, y.swapaxes(-1, -2))
            return _sum_to(xp, grad, self.mx.shape).reshape(self.x.shape)

        def dy():
            grad = self.of(turned, x) if self.ty else self.of(x.swapaxes(-1, -2), dout)
            return _sum_to(xp, grad, self.my.shape).reshape(self.y.shape)

        return {"X@GRAD": dx, "Y@GRAD": dy}


def _forward(call: Call) -> dict:
    return {"Out": _Product(call).forward()}


def _backward(call: Call) -> dict:
    product, dout = _Product(call), call.array("Out@GRAD")
    same_dtype(product.x, dout)
    return {slot: make() for slot, make in product.backward(dout).items() if call.wanted[slot]}


LAUNCHERS = dict.fromkeys(("mul", "matmul", "matmul_v2"), _forward)
LAUNCHERS.update(dict.fromkeys(("mul_grad", "matmul_grad", "matmul_v2_grad"), _backward))
