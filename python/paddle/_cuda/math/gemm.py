"""Products of matrices and of stacks of matrices by cuBLAS, as calls of a library that recipes replay."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..call import Call, Declined

# cudaDataType_t; uint16 holds the bits of bfloat16.
_KINDS = {"float32": 0, "float64": 1, "float16": 2, "uint16": 14}
# cublasComputeType_t, cublasGemmAlgo_t
_FLOAT32, _FLOAT64, _TF32 = 68, 70, 77
_DEFAULT_ALGORITHM = -1
_LARGEST = (1 << 31) - 1
#: factors on the host by type and value: recipes hold their addresses, so they are kept
_factors: dict[tuple[str, float], tuple[int, np.ndarray]] = {}


def _factor(kind: str, value: float) -> int:
    """The address of a factor: a double for float64, else a float."""
    key = "float64" if kind == "float64" else "float32", float(value)
    found = _factors.get(key)
    if found is None:
        array = np.array([value], key[0])
        found = _factors.setdefault(key, (array.ctypes.data, array))
    return found[0]


class _Stack:
    """A stack of matrices in memory: the distance of rows (of columns, if those are contiguous) and of the matrices
    along each dimension of the result's stack, in elements; 0 along those in which it is broadcast."""

    def __init__(self, array: Any, swapped: bool, rank: int) -> None:
        size, (r, c) = array.itemsize, array.shape[-2:]
        *lead, rows, columns = (s // size for s in array.strides)
        missing = rank - len(lead)
        self.array, self.counts = array, [1] * missing + list(array.shape[:-2])
        self.strides = [0 if n == 1 else s for n, s in zip(self.counts, [0] * missing + lead, strict=True)]
        if (c == 1 or columns == 1) and (r == 1 or rows >= c):
            by_columns, self.step = False, c if r == 1 else rows
        elif (r == 1 or rows == 1) and columns >= r:
            by_columns, self.step = True, columns
        else:
            raise ValueError(f"neither rows nor columns are contiguous: shape {array.shape}, strides {array.strides}")
        self.transposed = by_columns != swapped

    def at(self, place: tuple[int, ...]) -> Any:
        """The matrix at a place of the result's stack."""
        missing = len(self.counts) - (self.array.ndim - 2)
        return self.array[tuple(0 if n == 1 else i for n, i in zip(self.counts, place, strict=True))[missing:]]


def _stack(call: Call, array: Any, swapped: bool, rank: int) -> _Stack:
    try:
        return _Stack(array, swapped, rank)
    except ValueError:
        return _Stack(call.xp.ascontiguousarray(array), swapped, rank)


class _Group(NamedTuple):
    """Adjacent dimensions of the result's stack through which each operand steps with one stride."""

    dims: range
    length: int
    strides: tuple[int, ...]


def _groups(batch: tuple[int, ...], stacks: tuple[_Stack, ...]) -> list[_Group]:
    found: list[_Group] = []
    for i, n in enumerate(batch):
        if n == 1:
            continue
        strides = tuple(s.strides[i] for s in stacks)
        if found and all(outer == n * inner for outer, inner in zip(found[-1].strides, strides, strict=True)):
            last = found.pop()
            found.append(_Group(range(last.dims.start, i + 1), last.length * n, strides))
        else:
            found.append(_Group(range(i, i + 1), n, strides))
    return found


def _fold(groups: list[_Group], m: int, x: _Stack, out: _Stack) -> int:
    """The number of rows of one product of a stack and one matrix: the last group is removed if its matrices follow one
    another in `x` and `out`."""
    if not groups or x.transposed:
        return m
    of_x, of_y, of_out = groups[-1].strides
    if of_y or not of_x or (m > 1 and (of_x != m * x.step or of_out != m * out.step)):
        return m
    if m == 1:
        if of_x < x.step or of_out < out.step:
            return m
        x.step, out.step = of_x, of_out
    return m * groups.pop().length


def product(
    call: Call,
    x: Any,
    y: Any,
    *,
    tx: bool = False,
    ty: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Any = None,
    dtype: str | None = None,
) -> Any:
    """``alpha * x @ y + beta * out`` of matrices or of stacks of them, which are broadcast as numpy does; the result is
    `out`.

    Args:
        x: Array [..., m, k]; with `tx` [..., k, m], of which the transposes are multiplied.
        y: Array [..., k, n]; with `ty` [..., n, k].
        tx, ty: Whether the matrices of `x`, `y` are transposed.
        alpha, beta: Factors. With beta = 0 `out` is not read.
        out: Array [..., m, n] of the broadcast stack, whose rows are contiguous; None: memory from ``call.empty``.
        dtype: The data type of that memory: None is that of the operands, float32 is possible for 16-bit operands.

    The operands have one data type: float32, float64, float16 or uint16 (bfloat16). Products of 16-bit types are
    accumulated in float32 and rounded once; operands of float32 are rounded to TF32 where the machine or the call
    allows that.

    The product is a call of cuBLAS, recorded by ``call.library``. Views are read where they are if the rows or the
    columns of each matrix are contiguous (slices, ``swapaxes(-1, -2)``, ``broadcast_to``); other operands are copied,
    and the operator's call has no recipe then. A stack is one call if one stride leads through it; otherwise its
    largest dimension is, and the others are a loop. A stack of `x` times one matrix is one product of all rows.

    Declined for sizes over 2^31 - 1 and other data types. OSError if cuBLAS fails.
    """
    m, k = (x.shape[-1], x.shape[-2]) if tx else x.shape[-2:]
    n, kind = y.shape[-2 if ty else -1], x.dtype.name
    if kind not in _KINDS or y.dtype != x.dtype:
        raise Declined
    assert y.shape[-1 if ty else -2] == k, f"{call.op}: a product of {x.shape} (tx={tx}) and {y.shape} (ty={ty})"
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if x.ndim > 2 or y.ndim > 2 else ()
    if out is None:
        out = call.empty((*batch, m, n), dtype or kind)
    if out.size == 0:
        return out
    if k == 0:
        call.unrecorded()
        out[...] = out * out.dtype.type(beta) if beta else 0
        return out
    rank = len(batch)
    stacks = a, b, c = _stack(call, x, tx, rank), _stack(call, y, ty, rank), _Stack(out, False, rank)
    assert out.shape == (*batch, m, n) and not c.transposed
    groups = _groups(batch, stacks)
    m = _fold(groups, m, a, c)
    largest = max(groups, key=lambda g: g.length, default=_Group(range(0), 1, (0, 0, 0)))
    if max(m, n, k, a.step, b.step, c.step, largest.length) > _LARGEST:
        raise Declined
    looped = [i for g in groups if g is not largest for i in g.dims]
    for place in np.ndindex(*(d if i in looped else 1 for i, d in enumerate(batch))) if looped else [(0,) * rank]:
        _one(call, (m, n, k), stacks, [s.at(place) for s in stacks], largest, (alpha, beta))
    return out


def _one(call: Call, sizes: tuple, stacks: tuple, arrays: list, group: _Group, factors: tuple[float, float]) -> None:
    """One call. cuBLAS stores by columns, so that it computes the transposes: out' = y' x'."""
    (m, n, k), (a, b, c), (x, y, out) = sizes, stacks, arrays
    kind, kind_out = x.dtype.name, out.dtype.name
    of, of_out = _KINDS[kind], _KINDS[kind_out]
    alpha, beta = (_factor(kind, f) for f in factors)
    compute = (
        _FLOAT64 if kind == "float64" else _TF32 if kind == "float32" and (call.machine.tf32 or call.tf32) else _FLOAT32
    )
    first = call.machine.blas(), int(b.transposed), int(a.transposed), n, m, k, alpha
    last = compute, _DEFAULT_ALGORITHM
    if group.length == 1:
        call.library("cublasGemmEx", *first, y, of, b.step, x, of, a.step, beta, out, of_out, c.step, *last)
        return
    sx, sy, sout = group.strides
    call.library(
        "cublasGemmStridedBatchedEx",
        *first,
        *(y, of, b.step, sy),
        *(x, of, a.step, sx),
        beta,
        *(out, of_out, c.step, sout, group.length),
        *last,
    )
