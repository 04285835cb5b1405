"""Products to which a matrix or a row is added: addmm, its gradient, and fc."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..units import FLOATS, Unit, grid_of, instances
from .gemm import product
from .matmul import sum_to

SOURCE = r"""
// out[i, j] = scale * x[i * rows + j * columns] of n elements in rows of `width`.
template <typename T> __global__ void spread(const T* x, T* out, i64 n, i64 width, i64 rows, i64 columns,
                                             typename acc<T>::type scale) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        out[i] = narrow_to<T>::of(scale * wide(x[i / width * rows + i % width * columns]));
}

// A row is added to all rows of out, and negative elements become 0 if `relu`.
template <typename T> __global__ void add_row(T* out, const T* row, i64 n, i64 width, int relu) {
    typedef typename acc<T>::type A;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        A v = A(wide(out[i])) + A(wide(row[i % width]));
        out[i] = narrow_to<T>::of(relu && v < A(0) ? A(0) : v);
    }
}

template <typename T> __global__ void rectify(T* out, i64 n) {
    typedef typename acc<T>::type A;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        if (A(wide(out[i])) < A(0)) out[i] = narrow_to<T>::of(A(0));
}
"""
UNIT = Unit("addmm", SOURCE, tuple(name for k in ("spread", "add_row", "rectify") for name in instances(k, FLOATS)))


def _spread(call: Call, x: Any, shape: tuple[int, int], scale: float, out: Any) -> Any:
    """A matrix, broadcast and multiplied by a factor."""
    t, (rows, width) = ctype(x, FLOATS), shape
    strides = (np.int64(0 if n == 1 else s) for n, s in zip(x.shape, (x.shape[1], 1), strict=True))
    factor = np.float64(scale) if t == "double" else np.float32(scale)
    n = rows * width
    call.launch(UNIT, f"spread<{t}>", grid_of(n), 256, x, out, np.int64(n), np.int64(width), *strides, factor)
    return out


def _addmm(call: Call) -> dict:
    added, x, y = call.array("Input"), call.array("X"), call.array("Y")
    same_dtype(added, x, y)
    out, beta = call.out("Out"), call.attrs["Beta"]
    if beta != 0:
        _spread(call, added, out.shape, 1.0, out)
    return {"Out": product(call, x, y, alpha=call.attrs["Alpha"], beta=beta, out=out)}


def _addmm_grad(call: Call) -> dict:
    x, y, d = call.array("X"), call.array("Y"), call.array("Out@GRAD")
    same_dtype(x, y, d)
    a, made = call.attrs, {}
    if call.wanted["Input@GRAD"]:
        shape = tuple(call.ins["Input"].shape)
        added = sum_to(call, d, shape)
        made["Input@GRAD"] = _spread(call, added, shape, a["Beta"], call.empty(shape, d.dtype))
    if call.wanted["X@GRAD"]:
        made["X@GRAD"] = product(call, d, y, ty=True, alpha=a["Alpha"])
    if call.wanted["Y@GRAD"]:
        made["Y@GRAD"] = product(call, x, d, tx=True, alpha=a["Alpha"])
    return made


def _fc(call: Call) -> dict:
    x, w, a = call.array("Input"), call.array("W"), call.attrs
    same_dtype(x, w)
    if a["padding_weights"] or x.size == 0 or a["activation_type"] not in ("", "relu"):
        raise Declined
    rows, relu = math.prod(x.shape[: a["in_num_col_dims"]]), a["activation_type"] == "relu"
    out, t = call.out("Out"), ctype(x, FLOATS)
    product(call, x.reshape(rows, -1), w, out=out.reshape(rows, w.shape[1]))
    n = np.int64(out.size)
    if call.ins.get("Bias") is not None:
        bias = call.array("Bias")
        same_dtype(x, bias)
        width = np.int64(w.shape[1])
        call.launch(UNIT, f"add_row<{t}>", grid_of(out.size), 256, out, bias, n, width, np.int32(relu))
    elif relu:
        call.launch(UNIT, f"rectify<{t}>", grid_of(out.size), 256, out, n)
    return {"Out": out}


LAUNCHERS = {"addmm": _addmm, "addmm_grad": _addmm_grad, "fc": _fc}
