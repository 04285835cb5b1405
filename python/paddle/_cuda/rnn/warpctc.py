"""warpctc and its gradient: the forward-backward algorithm in logarithms and float64, a block for each sequence."""

from __future__ import annotations

import numpy as np

from .. import ids, maps
from ..call import Call, Declined, ctype, same_dtype
from ..units import REALS, Unit, instances
from .batches import offsets

SOURCE = r"""
__device__ __forceinline__ double log_add(double a, double b, double c) {
    double m = a > b ? a : b;
    m = m > c ? m : c;
    m = m < -1e300 ? -1e300 : m;
    return m + log(exp(a - m) + exp(b - m) + exp(c - m));
}

// Sequence b: `steps`, first row and stride of its rows of scores, first label and number of labels in spans[5 * b ..].
// States alternate blanks and labels. `scratch` has for each sequence most_steps sums and (most_steps + 2) rows of
// `states` elements. The gradient [.., sequences, classes] (null: none) holds zeros before.
template <typename T> __global__ void ctc(const T* x, const i64* label, const i64* spans, double* scratch, T* loss,
                                          T* grad, i64 classes, i64 blank, i64 most_steps, i64 states_most) {
    i64 b = blockIdx.x, sequences = gridDim.x;
    const i64* own = spans + 5 * b;
    i64 steps = own[0], first = own[1], stride = own[2], labels = own[4];
    const i64* ids = label + own[3];
    double* sums = scratch + b * (most_steps + (most_steps + 2) * states_most);
    double* forward = sums + most_steps;
    double* behind = forward + most_steps * states_most;
    double* next = behind + states_most;
    i64 states = 2 * labels + 1, least = labels;
    for (i64 i = 1; i < labels; i++) least += ids[i] == ids[i - 1];
    if (steps == 0 || least > steps) {
        if (threadIdx.x == 0) loss[b] = T(0);
        return;
    }
    double none = -1.7e308;  // the logarithm of 0; log_add of it is -inf, which stays
    for (i64 t = 0; t < steps; t++) {
        const T* row = x + (first + t * stride) * classes;
        T top = row[0];
        for (i64 c = threadIdx.x; c < classes; c += blockDim.x) top = Max::join(top, row[c]);
        top = block_join<Max>(top);
        double sum = 0;
        for (i64 c = threadIdx.x; c < classes; c += blockDim.x) sum += exp((double)(row[c] - top));
        sum = (double)top + log(block_join<Sum>(sum));
        if (threadIdx.x == 0) sums[t] = sum;
        double* now = forward + t * states_most;
        const double* before = now - states_most;
        for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
            double p = (double)row[s % 2 ? ids[s / 2] : blank] - sum;
            if (t == 0) {
                now[s] = s < 2 ? p : none;
                continue;
            }
            bool skips = s % 2 && s > 1 && ids[s / 2] != ids[s / 2 - 1];
            now[s] = log_add(before[s], s > 0 ? before[s - 1] : none, skips ? before[s - 2] : none) + p;
        }
        __syncthreads();
    }
    const double* last = forward + (steps - 1) * states_most;
    double total = log_add(last[states - 1], states > 1 ? last[states - 2] : none, none);
    if (threadIdx.x == 0) loss[b] = T(-total);
    if (!grad) return;
    for (i64 s = threadIdx.x; s < states; s += blockDim.x) behind[s] = s >= states - 2 ? 0.0 : none;
    __syncthreads();
    for (i64 t = steps - 1; t >= 0; t--) {
        const T* row = x + (first + t * stride) * classes;
        T* to = grad + (t * sequences + b) * classes;
        for (i64 c = threadIdx.x; c < classes; c += blockDim.x) to[c] = T(exp((double)row[c] - sums[t]));
        for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
            i64 of = s % 2 ? ids[s / 2] : blank;
            next[s] = behind[s] + (double)row[of] - sums[t];
        }
        __syncthreads();
        // The first state of a class subtracts the shares of all its states, in their order.
        const double* now = forward + t * states_most;
        for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
            i64 of = s % 2 ? ids[s / 2] : blank;
            bool is_first = true;
            for (i64 u = 0; u < s && is_first; u++) is_first = (u % 2 ? ids[u / 2] : blank) != of;
            if (!is_first) continue;
            double share = 0;
            for (i64 u = s; u < states; u++)
                if ((u % 2 ? ids[u / 2] : blank) == of) share += exp(now[u] + behind[u] - total);
            to[of] -= T(share);
        }
        __syncthreads();
        for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
            bool skips = s % 2 && s + 2 < states && ids[s / 2] != ids[s / 2 + 1];
            behind[s] = log_add(next[s], s + 1 < states ? next[s + 1] : none, skips ? next[s + 2] : none);
        }
        __syncthreads();
    }
}
"""
UNIT = Unit("ctc", SOURCE, instances("ctc", REALS))


def _rows(call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each sequence the number of steps, the row of the first and the stride of its rows."""
    x = call.ins["Logits"]
    if call.ins.get("LogitsLength") is None:
        at = offsets(call, "Logits")
        return np.diff(at), at[:-1], np.ones(at.size - 1, np.int64)
    if len(x.shape) != 3:
        raise Declined
    steps = np.asarray(call.numbers("LogitsLength"), np.int64)
    most, batch = x.shape[:2]
    if steps.size != batch or (steps < 0).any() or (steps > most).any():
        raise Declined  # the CPU kernel raises the error
    return steps, np.arange(batch, dtype=np.int64), np.full(batch, batch, np.int64)


def _labels(call: Call, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first label and the number of labels of each sequence."""
    label = call.array("Label")
    if call.ins.get("LabelLength") is None:
        at = offsets(call, "Label")
        if at.size != count + 1 or label.size != at[-1]:
            raise Declined
        return at[:-1], np.diff(at)
    counts = np.asarray(call.numbers("LabelLength"), np.int64)
    if label.ndim != 2 or counts.size != count or (counts < 0).any() or (counts > label.shape[1]).any():
        raise Declined
    return np.arange(count, dtype=np.int64) * label.shape[1], counts


def _forward(call: Call) -> dict:
    x, xp = call.array("Logits"), call.xp
    t, classes = ctype(x, REALS), x.shape[-1]
    steps, first, stride = _rows(call)
    count = steps.size
    if count == 0 or x.size == 0:
        raise Declined
    begin, labels = _labels(call, count)
    label = call.array("Label").reshape(-1)
    index = maps.ranges(begin, labels)
    ((_, used),) = maps.on_device(call, ("used", index.tobytes()), lambda: (index,))
    # Labels of the sequences, one after the other: padding may hold any value.
    label = ids.checked(call, xp.take(label, used), classes) if index.size else xp.zeros(1, "int64")
    spans = np.stack([steps, first, stride, maps.offsets_of(labels)[:-1], labels], 1)
    ((_, device),) = maps.on_device(call, ("ctc", spans.tobytes()), lambda: (spans,))
    most_steps, states = int(max(steps.max(), 1)), 2 * int(labels.max()) + 1
    scratch = call.empty((count * (most_steps + (most_steps + 2) * states),), "float64")
    loss, grad = call.empty((count, 1), x.dtype), None
    if call.wanted["WarpCTCGrad"]:
        most = x.shape[0] if x.ndim == 3 else int(steps.max())
        grad = xp.zeros((most, count, classes), x.dtype)
    sizes = map(np.int64, (classes, call.attrs["blank"], most_steps, states))
    given = np.uint64(0) if grad is None or grad.size == 0 else grad
    call.launch(UNIT, f"ctc<{t}>", count, 128, x, label, device, scratch, loss, given, *sizes)
    return {"Loss": loss, "WarpCTCGrad": grad}


def _backward(call: Call) -> dict:
    grad, d, x = call.array("WarpCTCGrad"), call.array("Loss@GRAD"), call.ins["Logits"]
    same_dtype(grad, d)
    ctype(grad, REALS)
    steps, first, stride = _rows(call)
    count, classes = steps.size, x.shape[-1]
    rows = x.shape[0] * (x.shape[1] if len(x.shape) == 3 else 1)
    if d.size != count or grad.size == 0:
        raise Declined

    def make() -> tuple:
        owner = np.full(rows, -1, np.int64)
        index = owner.copy()
        for b in range(count):
            at = first[b] + np.arange(steps[b]) * stride[b]
            owner[at], index[at] = b, np.arange(steps[b]) * count + b
        return owner, index, np.maximum(steps, 1)

    key = ("ctc back", rows, steps.tobytes(), first.tobytes(), stride.tobytes())
    (_, owner), (_, index), (_, lengths) = maps.on_device(call, key, make)
    scale = d.reshape(-1, 1)
    if call.attrs["norm_by_times"]:
        scale = scale / lengths.astype(d.dtype).reshape(-1, 1)
    dx = maps.gather(call, grad.reshape(-1, classes), index, (rows, classes))
    return {"Logits@GRAD": (dx * maps.gather(call, scale, owner, (rows, 1))).reshape(x.shape)}


LAUNCHERS = {"warpctc": _forward, "warpctc_grad": _backward}
