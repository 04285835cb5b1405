"""attention_lstm: an LSTM that attends to its whole sequence at every step. A step is one launch for the attention of
all sequences, two products and one cell kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import maps, strided
from ..call import Call, Declined, ctype, same_dtype
from ..math.gemm import product
from ..units import REALS, Unit, block_of, instances
from .batches import NONE, Batches, kinds, offsets, optional, step
from .cells import ACTIVATIONS

SOURCE = r"""
// Block b: the mean of the rows first[b] .. end[b] of x, weighted by the softmax of their scores, to row b of out. A
// score is relu(own[row] + of_cell[b]), then (scale not null) relu(score * scale[0] + bias[0]).
template <typename T> __global__ void attend(const T* x, const T* own, const T* of_cell, const i64* first,
                                             const i64* end, const T* scale, const T* bias, T* out, i64 width) {
    i64 b = blockIdx.x, from = first[b], to = end[b];
    T factor = scale ? scale[0] : T(1), more = bias ? bias[0] : T(0), cell = of_cell[b];
    T most = T(0);  // scores are not negative
    for (i64 r = from + threadIdx.x; r < to; r += blockDim.x) {
        T s = own[r] + cell;
        s = s > T(0) ? s : T(0);
        if (scale) s = s * factor + more, s = s > T(0) ? s : T(0);
        if (s > most) most = s;
    }
    most = block_join<Max>(most);
    T total = T(0);
    for (i64 r = from + threadIdx.x; r < to; r += blockDim.x) {
        T s = own[r] + cell;
        s = s > T(0) ? s : T(0);
        if (scale) s = s * factor + more, s = s > T(0) ? s : T(0);
        total += exp(s - most);
    }
    total = block_join<Sum>(total);
    for (i64 c = threadIdx.x; c < width; c += blockDim.x) {
        T sum = T(0);
        for (i64 r = from; r < to; r++) {
            T s = own[r] + cell;
            s = s > T(0) ? s : T(0);
            if (scale) s = s * factor + more, s = s > T(0) ? s : T(0);
            sum += exp(s - most) / total * x[r * width + c];
        }
        out[b * width + c] = sum;
    }
}
"""
UNIT = Unit("attend", SOURCE, instances("attend", REALS))
#: blocks of the weights' columns (forget, input, output, candidate) in the order of the cell kernel
_GATES = (3, 1, 0, 2)


def _reordered(call: Call, w, n: int):
    """Columns by gate in the order of the cell kernel."""
    out = call.empty(w.shape, w.dtype)
    for to, source in enumerate(_GATES):
        strided.move(call, w, out, (w.shape[0], n), (4 * n, 1), (4 * n, 1), source * n, to * n)
    return out


def _spans(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and end row of the sequences, the longest first."""
    order = np.argsort(-np.diff(at), kind="stable")
    return at[:-1][order].astype(np.int64), at[1:][order].astype(np.int64)


def _attention(call: Call) -> dict:
    x, c0, a = call.array("X"), call.array("C0"), call.attrs
    attention, lstm, gate_bias = (call.array(s) for s in ("AttentionWeight", "LSTMWeight", "LSTMBias"))
    bias, scale, scale_bias = (optional(call, f"Attention{s}", x) for s in ("Bias", "Scalar", "ScalarBias"))
    same_dtype(x, c0, attention, lstm, gate_bias)
    t, inputs, n = ctype(x, REALS), x.shape[1], lstm.shape[1] // 4
    at = offsets(call, "X")
    h0 = optional(call, "H0", x)
    if any(s is not None and s.shape[0] != at.size - 1 for s in (c0, h0)):
        raise Declined
    batches = Batches(call, at, False)
    (_, first), (_, end) = maps.on_device(call, ("attended spans", at.tobytes()), lambda: _spans(at))
    own = _scores(call, x, attention[:inputs], bias)
    weight = _reordered(call, lstm, n)
    gate_bias = _reordered(call, gate_bias.reshape(1, -1), n)
    by = kinds(x.dtype, *(ACTIVATIONS[a[f"{k}_activation"]] for k in ("gate", "cell", "candidate")))
    before_h, before_c = batches.first(h0), batches.first(c0)
    states, cells, acts = (call.empty((batches.total, n), x.dtype) for _ in range(3))
    for start, stop in batches.steps:
        m = stop - start
        of_cell = product(call, before_c[:m], attention[inputs:])
        attended = call.empty((m, inputs), x.dtype)
        given = x, own, of_cell, first, end, NONE if scale is None else scale
        more = NONE if scale is None or scale_bias is None else scale_bias
        call.launch(UNIT, f"attend<{t}>", m, block_of(inputs), *given, more, attended, np.int64(inputs))
        gates = strided.expanded(call, gate_bias, (m, 4 * n)) if m > 1 else strided.gathered(
            call, gate_bias, (m, 4 * n), (4 * n, 1))  # fmt: skip
        product(call, attended, weight[n:], beta=1.0, out=gates)
        if before_h is not None:
            product(call, before_h[:m], weight[:n], beta=1.0, out=gates)
        made = {"cells": cells[start:stop], "acts": acts[start:stop]}
        step(call, "Lstm", n, by, states[start:stop], gates=gates, before=before_c[:m], **made)
        before_h, before_c = states[start:stop], cells[start:stop]
    none = call.empty((0,), x.dtype)
    results = {"Hidden": batches.scatter(states), "Cell": batches.scatter(cells)}
    return {**results, **{slot: none for slot in ("AttentionedX", "AttentionFCOut", "LSTMX", "LSTMOUT")}}


def _scores(call: Call, x, weight, bias):
    """x times the weights, plus the bias: [rows, 1]."""
    if bias is None:
        return product(call, x, weight)
    out = strided.gathered(call, bias, (x.shape[0], 1), (0, 0))
    return product(call, x, weight, beta=1.0, out=out)


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"attention_lstm": _attention}
