"""linear_chain_crf, its gradient and crf_decoding: a block for each sequence, a thread for each tag."""

from __future__ import annotations

import numpy as np

from .. import ids, maps
from ..call import Call, Declined, ctype, same_dtype
from ..units import REALS, Unit, block_of, instances
from .batches import lengths, offsets

SOURCE = r"""
// Transitions [tags + 2, tags]: row 0 has the scores of the first tag, row 1 of the last, row 2 + i from tag i. Rows
// spans[2 * b] .. spans[2 * b + 1] - 1 are sequence b. Probabilities are normalised at each step, as on the CPU. `tops`
// are the largest scores of the rows, `x_exps` the exponentials of the scores minus these.
template <typename T> __global__ void crf_cost(const T* x, const T* w, const i64* label, const i64* spans,
                                               const T* x_exps, const T* tops, const T* w_exps, T* alpha, T* cost,
                                               i64 tags) {
    i64 b = blockIdx.x, from = spans[2 * b], steps = spans[2 * b + 1] - from;
    if (steps <= 0) {
        if (threadIdx.x == 0) cost[b] = T(0);
        return;
    }
    double log_z = 0, score = 0;
    for (i64 k = 0; k < steps; k++) {
        T* now = alpha + (from + k) * tags;
        T sum = 0;
        for (i64 j = threadIdx.x; j < tags; j += blockDim.x) {
            T v = T(0);
            if (k == 0)
                v = w_exps[j];
            else
                for (i64 i = 0; i < tags; i++) v += now[i - tags] * w_exps[(i + 2) * tags + j];
            now[j] = v * x_exps[(from + k) * tags + j];
            sum += now[j];
        }
        sum = block_join<Sum>(sum);
        for (i64 j = threadIdx.x; j < tags; j += blockDim.x) now[j] /= sum;
        log_z += log((double)sum) + (double)tops[from + k];
        __syncthreads();
    }
    double last = 0;
    for (i64 j = threadIdx.x; j < tags; j += blockDim.x)
        last += (double)alpha[(from + steps - 1) * tags + j] * (double)w_exps[tags + j];
    last = block_join<Sum>(last);
    for (i64 k = threadIdx.x; k < steps; k += blockDim.x) {
        i64 own = label[from + k];
        score += (double)x[(from + k) * tags + own];
        score += (double)(k == 0 ? w[own] : w[(label[from + k - 1] + 2) * tags + own]);
        if (k == steps - 1) score += (double)w[tags + own];
    }
    score = block_join<Sum>(score);
    if (threadIdx.x == 0) cost[b] = T(log_z + log(last) - score);
}

// The gradients of the scores, and of the transitions by sequence: dw [sequences, tags + 2, tags], zeros before.
// `scratch` has two rows of tags for each sequence.
template <typename T> __global__ void crf_cost_grad(const T* x_exps, const T* w_exps, const T* alpha, const i64* label,
                                                    const i64* spans, const T* dcost, T* scratch, T* dx, T* dw,
                                                    i64 tags) {
    i64 b = blockIdx.x, from = spans[2 * b], steps = spans[2 * b + 1] - from;
    if (steps <= 0) return;
    T* now = scratch + 2 * b * tags;
    T* next = now + tags;
    T* own_w = dw + b * (tags + 2) * tags;
    T d = dcost[b], sum = 0;
    for (i64 j = threadIdx.x; j < tags; j += blockDim.x) sum += w_exps[tags + j];
    sum = block_join<Sum>(sum);
    for (i64 j = threadIdx.x; j < tags; j += blockDim.x) now[j] = w_exps[tags + j] / sum;
    for (i64 k = steps - 1; k >= 0; k--) {
        const T* own = alpha + (from + k) * tags;
        T* to = dx + (from + k) * tags;
        T total = 0;
        for (i64 j = threadIdx.x; j < tags; j += blockDim.x) total += own[j] * now[j];
        total = block_join<Sum>(total);
        for (i64 j = threadIdx.x; j < tags; j += blockDim.x) {
            to[j] = own[j] * now[j] / total * d - (j == label[from + k] ? d : T(0));
            if (k == 0) own_w[j] += to[j];
            if (k == steps - 1) own_w[tags + j] += to[j];
        }
        if (k == 0) break;
        for (i64 j = threadIdx.x; j < tags; j += blockDim.x) next[j] = now[j] * x_exps[(from + k) * tags + j];
        __syncthreads();
        const T* before = own - tags;
        T reached = 0, all = 0;
        for (i64 i = threadIdx.x; i < tags; i += blockDim.x) {
            T v = 0;
            for (i64 j = 0; j < tags; j++) v += next[j] * w_exps[(i + 2) * tags + j];
            now[i] = v;
            reached += before[i] * v;
            all += v;
        }
        reached = block_join<Sum>(reached);
        all = block_join<Sum>(all);
        for (i64 i = threadIdx.x; i < tags; i += blockDim.x) {
            T a = d / reached * before[i];
            T* row = own_w + (i + 2) * tags;
            for (i64 j = 0; j < tags; j++) row[j] += a * next[j] * w_exps[(i + 2) * tags + j];
            if (i == label[from + k - 1]) row[label[from + k]] -= d;
            now[i] /= all;
        }
        __syncthreads();
    }
}

// The best tags of a sequence, the first of equal scores. `scratch` has two rows of tags for each sequence, `origin`
// the best tag before, for each row and tag.
template <typename T> __global__ void crf_paths(const T* x, const T* w, const i64* spans, T* scratch, int* origin,
                                                i64* path, i64 tags) {
    i64 b = blockIdx.x, from = spans[2 * b], steps = spans[2 * b + 1] - from;
    if (steps <= 0) return;
    T* now = scratch + 2 * b * tags;
    T* next = now + tags;
    for (i64 j = threadIdx.x; j < tags; j += blockDim.x) now[j] = w[j] + x[from * tags + j];
    __syncthreads();
    for (i64 k = 1; k < steps; k++) {
        for (i64 j = threadIdx.x; j < tags; j += blockDim.x) {
            T best = now[0] + w[2 * tags + j];
            int which = 0;
            for (i64 i = 1; i < tags; i++) {
                T v = now[i] + w[(i + 2) * tags + j];
                if (v > best) best = v, which = (int)i;
            }
            next[j] = best + x[(from + k) * tags + j];
            origin[(from + k) * tags + j] = which;
        }
        __syncthreads();
        T* held = now;
        now = next, next = held;
    }
    if (threadIdx.x != 0) return;
    i64 tag = 0;
    for (i64 j = 1; j < tags; j++)
        if (now[j] + w[tags + j] > now[tag] + w[tags + tag]) tag = j;
    for (i64 k = steps - 1; k >= 0; k--) {
        path[from + k] = tag;
        if (k > 0) tag = origin[(from + k) * tags + tag];
    }
}
"""
_KERNELS = ("crf_cost", "crf_cost_grad", "crf_paths")
UNIT = Unit("crf", SOURCE, sum((instances(kernel, REALS) for kernel in _KERNELS), ()))


def _spans(call: Call, shape, sequences: str) -> tuple:
    """The number of sequences, (first row, end) of each on the device, and which rows they have (None: all)."""
    if call.ins.get("Length") is None:
        at = offsets(call, sequences)
        make = lambda: (np.stack([at[:-1], at[1:]], 1),)  # noqa: E731
        ((_, device),) = maps.on_device(call, ("spans", at.tobytes()), make)
        return at.size - 1, device, None
    counts = lengths(call, "Length", shape[1])
    (batch, steps), xp = shape[:2], call.xp
    if counts.size != batch:
        raise Declined
    first = xp.arange(batch) * steps
    used = (xp.arange(steps) < counts.reshape(-1, 1)).reshape(-1)
    return batch, xp.ascontiguousarray(xp.stack([first, first + counts], 1)), used


def _labels(call: Call, tags: int, rows: int, used):
    """The labels of all rows as int64, checked where a sequence has the row."""
    label = call.array("Label").reshape(-1)
    if label.size != rows:
        raise Declined
    return ids.checked(call, label if used is None else call.xp.where(used, label, label.dtype.type(0)), tags)


def _forward(call: Call) -> dict:
    x, w = call.array("Emission"), call.array("Transition")
    same_dtype(x, w)
    t, tags, xp = ctype(x, REALS), w.shape[1], call.xp
    count, device, used = _spans(call, x.shape, "Label")
    label = _labels(call, tags, x.size // tags, used)
    tops = x.max(axis=-1, keepdims=True)
    w_exps, x_exps, alpha = xp.exp(w), xp.exp(x - tops), xp.zeros(x.shape, x.dtype)
    cost = call.empty((count, 1), x.dtype)
    if count:
        args = x, w, label, device, x_exps, tops, w_exps, alpha, cost, np.int64(tags)
        call.launch(UNIT, f"crf_cost<{t}>", count, block_of(tags), *args)
    return {"LogLikelihood": cost, "Alpha": alpha, "EmissionExps": x_exps, "TransitionExps": w_exps}


def _backward(call: Call) -> dict:
    alpha, x_exps, w_exps = (call.array(slot) for slot in ("Alpha", "EmissionExps", "TransitionExps"))
    d = call.array("LogLikelihood@GRAD")
    same_dtype(alpha, x_exps, w_exps, d)
    t, tags, xp = ctype(alpha, REALS), w_exps.shape[1], call.xp
    count, device, used = _spans(call, alpha.shape, "Label")
    if d.size != count:
        raise Declined
    label = _labels(call, tags, alpha.size // tags, used)
    dx, dw = xp.zeros(alpha.shape, alpha.dtype), xp.zeros((count, *w_exps.shape), alpha.dtype)
    scratch = call.empty((2 * count, tags), alpha.dtype)
    if count:
        args = x_exps, w_exps, alpha, label, device, d, scratch, dx, dw, np.int64(tags)
        call.launch(UNIT, f"crf_cost_grad<{t}>", count, block_of(tags), *args)
    return {"Emission@GRAD": dx, "Transition@GRAD": dw.sum(axis=0)}


def _decode(call: Call) -> dict:
    x, w, xp = call.array("Emission"), call.array("Transition"), call.xp
    same_dtype(x, w)
    t, tags = ctype(x, REALS), w.shape[1]
    count, device, used = _spans(call, x.shape, "Emission")
    path = xp.zeros(call.shape("ViterbiPath"), "int64")
    scratch, origin = call.empty((2 * count, tags), x.dtype), call.empty(x.shape, "int32")
    if count:
        args = x, w, device, scratch, origin, path, np.int64(tags)
        call.launch(UNIT, f"crf_paths<{t}>", count, block_of(tags), *args)
    if call.ins.get("Label") is None:
        return {"ViterbiPath": path}
    label = call.array("Label").reshape(path.shape)
    same = (path == label).astype("int64")
    return {"ViterbiPath": same if used is None else same * used.reshape(path.shape).astype("int64")}


LAUNCHERS = {"linear_chain_crf": _forward, "linear_chain_crf_grad": _backward, "crf_decoding": _decode}
