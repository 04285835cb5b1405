"""warpctc and its gradient: the forward-backward algorithm in logarithms and float64, a block for each sequence."""

from __future__ import annotations

import numpy as np

from .. import ids, maps
from ..call import Call, Declined, ctype, same_dtype
from ..units import REALS, Unit, instances
from .batches import lengths, offsets

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


class _Sequences:
    """The sequences of a call on the device: `spans` has for each its steps, first row, stride of rows, first label and
    number of labels; `label` the labels, checked where a sequence has them."""

    def __init__(self, call: Call) -> None:
        x, self.call, xp = call.ins["Logits"], call, call.xp
        self.is_padded = call.ins.get("LogitsLength") is not None
        if self.is_padded != (call.ins.get("LabelLength") is not None):
            raise Declined
        label, classes = call.array("Label"), x.shape[-1]
        if self.is_padded:
            if len(x.shape) != 3 or label.ndim != 2 or label.shape[0] != x.shape[1]:
                raise Declined
            (self.most, self.count), width = x.shape[:2], label.shape[1]
            self.steps, labels = lengths(call, "LogitsLength", self.most), lengths(call, "LabelLength", width)
            if not self.steps.size == labels.size == self.count:
                raise Declined
            batch = xp.arange(self.count)
            self.spans = xp.stack(
                [self.steps, batch, xp.full(self.count, self.count, "int64"), batch * width, labels], 1
            )
            self.spans = xp.ascontiguousarray(self.spans)
            there = xp.arange(width) < labels.reshape(-1, 1)
            self.label = ids.checked(call, xp.where(there, label, label.dtype.type(0)).reshape(-1), classes)
            self.states = 2 * width + 1
        else:
            at, of_labels = offsets(call, "Logits"), offsets(call, "Label")
            if at.size != of_labels.size or label.size != of_labels[-1]:
                raise Declined
            steps, labels = np.diff(at), np.diff(of_labels)
            self.most, self.count = int(steps.max(initial=0)), steps.size
            spans = np.stack([steps, at[:-1], np.ones_like(steps), of_labels[:-1], labels], 1)
            ((_, self.spans),) = maps.on_device(call, ("ctc", spans.tobytes()), lambda: (spans,))
            self.label = ids.checked(call, label.reshape(-1), classes)
            self.states = 2 * int(labels.max(initial=0)) + 1


def _forward(call: Call) -> dict:
    x, xp = call.array("Logits"), call.xp
    t, classes = ctype(x, REALS), x.shape[-1]
    if x.size == 0:
        raise Declined
    own = _Sequences(call)
    count, most_steps = own.count, max(own.most, 1)
    if count == 0:
        raise Declined
    scratch = call.empty((count * (most_steps + (most_steps + 2) * own.states),), "float64")
    loss, grad = call.empty((count, 1), x.dtype), None
    if call.wanted["WarpCTCGrad"]:
        grad = xp.zeros((own.most, count, classes), x.dtype)
    sizes = map(np.int64, (classes, call.attrs["blank"], most_steps, own.states))
    given = np.uint64(0) if grad is None or grad.size == 0 else grad
    label = own.label if own.label.size else xp.zeros(1, "int64")
    call.launch(UNIT, f"ctc<{t}>", count, 128, x, label, own.spans, scratch, loss, given, *sizes)
    return {"Loss": loss, "WarpCTCGrad": grad}


def _placed(at: np.ndarray) -> tuple:
    """The sequence and the padded step of each row, and the number of steps of each sequence."""
    steps = np.diff(at)
    owner = maps.owners(steps)
    return owner, (np.arange(at[-1]) - at[:-1][owner]) * steps.size + owner, np.maximum(steps, 1)


def _backward(call: Call) -> dict:
    grad, d, x = call.array("WarpCTCGrad"), call.array("Loss@GRAD"), call.ins["Logits"]
    same_dtype(grad, d)
    ctype(grad, REALS)
    count, classes, scale = grad.shape[1], grad.shape[2], d.reshape(-1, 1)
    if d.size != count or grad.size == 0:
        raise Declined
    if call.ins.get("LogitsLength") is not None:
        if call.attrs["norm_by_times"]:
            steps = call.xp.maximum(lengths(call, "LogitsLength", x.shape[0]), 1)
            scale = scale / steps.astype(d.dtype).reshape(-1, 1)
        # The gradients of steps past a sequence's end are zeros.
        return {"Logits@GRAD": (grad * scale).reshape(x.shape)}
    at = offsets(call, "Logits")
    key = "ctc back", at.tobytes()
    (_, owner), (_, index), (_, steps) = maps.on_device(call, key, lambda: _placed(at))
    if call.attrs["norm_by_times"]:
        scale = scale / steps.astype(d.dtype).reshape(-1, 1)
    dx = maps.gather(call, grad.reshape(-1, classes), index, (at[-1], classes))
    return {"Logits@GRAD": (dx * maps.gather(call, scale, owner, (at[-1], 1))).reshape(x.shape)}


LAUNCHERS = {"warpctc": _forward, "warpctc_grad": _backward}
