"""Sum, mean, product and extrema over axes, and the gradients of the linear ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import formula, halves, strided
from ..call import Call, Declined, ctype
from ..units import TYPES, Unit, block_of, grid_of, instances

# Elements reduced by one block: a long run is reduced in chunks of this size, then over the chunks.
CHUNK = 16384
# Elements reduced by one thread where a middle dimension is reduced to few results.
COLUMN = 256
_FEW = 1 << 16

SOURCE = r"""
// Chunk c of run r: x[r * n + c * chunk ..]; the last dimension is reduced.
template <typename T, typename Op> __global__ void reduce_last(const T* x, T* out, i64 runs, i64 n, i64 chunk,
                                                               i64 chunks, typename acc<T>::type divisor) {
    typedef typename acc<T>::type A;
    for (i64 b = blockIdx.x; b < runs * chunks; b += gridDim.x) {
        i64 from = b / chunks * n + b % chunks * chunk;
        i64 left = n - b % chunks * chunk;
        i64 count = left < chunk ? left : chunk;
        A v = Op::none(A(wide(x[from])));
        for (i64 i = threadIdx.x; i < count; i += blockDim.x) v = Op::join(v, A(wide(x[from + i])));
        v = block_join<Op>(v);
        if (threadIdx.x == 0) out[b] = narrow_to<T>::of(v / divisor);
    }
}

// The middle of three dimensions is reduced in chunks, by a thread for each result: out [outer, chunks, inner].
template <typename T, typename Op> __global__ void reduce_middle(const T* x, T* out, i64 outer, i64 n, i64 inner,
                                                                 i64 chunk, i64 chunks,
                                                                 typename acc<T>::type divisor) {
    typedef typename acc<T>::type A;
    i64 results = outer * chunks * inner;
    for (i64 r = blockIdx.x * (i64)blockDim.x + threadIdx.x; r < results; r += (i64)gridDim.x * blockDim.x) {
        i64 first = r / inner % chunks * chunk, count = n - first < chunk ? n - first : chunk;
        const T* from = x + (r / (chunks * inner) * n + first) * inner + r % inner;
        A v = Op::none(A(wide(from[0])));
        for (i64 i = 0; i < count; i++) v = Op::join(v, A(wide(from[i * inner])));
        out[r] = narrow_to<T>::of(v / divisor);
    }
}
"""
_OPS = {"reduce_sum": "Sum", "reduce_mean": "Sum", "reduce_prod": "Prod", "reduce_max": "Max", "reduce_min": "Min"}
_JOINS = ("Sum", "Prod", "Max", "Min")
UNIT = Unit("reduction", SOURCE, instances("reduce_last", TYPES, _JOINS) + instances("reduce_middle", TYPES, _JOINS))


def _divisor(t: str, value: float):
    kind: Any = {"double": np.float64, "int": np.int32, "i64": np.int64}.get(t, np.float32)
    return kind(value)


def _last(call: Call, x, runs: int, n: int, join: str, divisor: float):
    """`x` as [runs, n] reduced to [runs]; a 16-bit type is not chunked, so that it is rounded once."""
    t = ctype(x)
    chunks = 1 if t in ("half_t", "bf16_t") else -(-n // CHUNK)
    last = chunks == 1
    out = call.empty((runs * chunks,), x.dtype)
    size = n if last else CHUNK
    call.launch(
        UNIT,
        f"reduce_last<{t}, {join}>",
        grid_of(runs * chunks, 1),
        block_of(size),
        x,
        out,
        np.int64(runs),
        np.int64(n),
        np.int64(size),
        np.int64(chunks),
        _divisor(t, divisor if last else 1),
    )
    return out if last else _last(call, out, runs, chunks, join, divisor)


def _axes(attrs: dict, rank: int) -> list[int]:
    return list(range(rank)) if attrs["reduce_all"] else sorted({d % rank for d in attrs["dim"]})


def reduce(call: Call, x, axes: list[int], join: str, divisor: float):
    """`x` reduced over `axes`, flat."""
    t = ctype(x)
    if x.size == 0 or not axes:
        raise Declined
    if axes != list(range(axes[0], axes[-1] + 1)):
        kept = [i for i in range(x.ndim) if i not in axes]
        x = strided.transposed(call, x, kept + axes)
        axes = list(range(len(kept), x.ndim))
    outer = math.prod(x.shape[: axes[0]])
    n, inner = math.prod(x.shape[axes[0] : axes[-1] + 1]), math.prod(x.shape[axes[-1] + 1 :])
    in_parallel = n > (CHUNK if inner == 1 else COLUMN) and outer * inner < _FEW
    if in_parallel and t in ("half_t", "bf16_t"):
        # Partial results keep float32, so that the result is rounded once.
        wide = halves.convert(call, x, "float32").reshape(outer, n, inner)
        return halves.convert(call, reduce(call, wide, [1], join, divisor), x.dtype.name)
    if inner == 1:
        return _last(call, x, outer, n, join, divisor)
    return _middle(call, x, (outer, n, inner), join, divisor)


def _middle(call: Call, x, sizes: tuple[int, int, int], join: str, divisor: float):
    """`x` as [outer, n, inner] reduced to [outer, inner], flat; long columns in chunks, and then over the chunks."""
    (outer, n, inner), t = sizes, ctype(x)
    size = COLUMN if n > COLUMN and outer * inner < _FEW and t not in ("half_t", "bf16_t") else n
    chunks = -(-n // size)
    out = call.empty((outer * chunks * inner,), x.dtype)
    call.launch(
        UNIT,
        f"reduce_middle<{t}, {join}>",
        grid_of(outer * chunks * inner),
        256,
        x,
        out,
        *map(np.int64, (outer, n, inner, size, chunks)),
        _divisor(t, divisor if chunks == 1 else 1),
    )
    return out if chunks == 1 else _middle(call, out, (outer, chunks, inner), join, divisor)


# Integers without an instance of the kernels.
_SMALL = ("int8", "uint8", "int16")


def _reduce(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    if a["out_dtype"] >= 0 or (call.op == "reduce_mean" and x.dtype.kind != "f"):
        raise Declined
    axes = _axes(a, x.ndim)
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if a["keep_dim"] or i not in axes)
    if x.dtype.name in _SMALL and axes and x.size:
        made = getattr(call.xp, _OPS[call.op].lower())(x, axis=tuple(axes))
        return {"Out": made.astype(x.dtype).reshape(shape or (1,))}
    divisor = math.prod(x.shape[i] for i in axes) if call.op == "reduce_mean" else 1
    return {"Out": reduce(call, x, axes, _OPS[call.op], divisor).reshape(shape or (1,))}


def _spread(call: Call) -> dict:
    """Gradients of sums and means: the result's gradient broadcast to all elements."""
    x, dout = call.ins["X"], call.array("Out@GRAD")
    if call.attrs["in_dtype"] >= 0 or len(x.shape) == 0 or (call.op == "reduce_mean_grad" and dout.dtype.kind != "f"):
        raise Declined
    axes = _axes(call.attrs, len(x.shape))
    if call.op == "reduce_mean_grad":
        dout = formula.apply(call, "scale", [dout], [1 / max(1, math.prod(x.shape[i] for i in axes)), 0.0])
    kept = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    return {"X@GRAD": strided.expanded(call, dout.reshape(kept), x.shape)}


def _mean(call: Call) -> dict:
    x = call.array("X")
    if x.dtype.kind != "f":
        raise Declined
    return {"Out": reduce(call, x, list(range(x.ndim)), "Sum", x.size)}


def _mean_grad(call: Call) -> dict:
    x, dout = call.ins["X"], call.array("Out@GRAD")
    if dout.dtype.kind != "f" or x.size == 0 or dout.size != 1:
        raise Declined
    return {"X@GRAD": strided.full_from(call, dout, x.size, x.shape)}


LAUNCHERS = dict.fromkeys(_OPS, _reduce)
LAUNCHERS.update(reduce_sum_grad=_spread, reduce_mean_grad=_spread, mean=_mean, mean_grad=_mean_grad)
