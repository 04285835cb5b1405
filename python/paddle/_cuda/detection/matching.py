"""bipartite_match, target_assign, mine_hard_examples: matching of prior boxes and objects; a block matches an image."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import sticky
from ..call import Call, Declined, ctype
from ..maps import images_of, offsets_on_device
from ..units import REALS, Unit, instances

SOURCE = r"""
// Greedy matching: repeatedly the most similar pair of a free row and a free column. Of equal pairs the first column
// comes first, for many rows the first row. With `all` a free column gets its most similar row of at least `threshold`.
template <typename T> __global__ void match_pairs(const T* dist, const i64* level, int* row, T* found,
                                                  unsigned char* taken, i64 columns, int all, T threshold) {
    const T* own = dist + level[blockIdx.x] * columns;
    i64 rows = level[blockIdx.x + 1] - level[blockIdx.x], n = rows * columns;
    bool many = rows >= 130;
    row += blockIdx.x * columns, found += blockIdx.x * columns, taken += level[blockIdx.x];
    T least = many ? T(0) : T(1e-6);
    for (i64 step = 0; step < rows; step++) {
        T best = T(-1);
        i64 key = n;
        for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
            i64 i = k / columns, j = k % columns, order = many ? k : j * rows + i;
            T d = own[k];
            bool fits = many ? d > least : d >= least;
            if (taken[i] || row[j] != -1 || !fits || d < best || (d == best && order > key)) continue;
            best = d, key = order;
        }
        T most = block_join<Max>(best);
        if (most < T(0)) break;
        key = block_join<Min>(best == most ? key : n);
        if (threadIdx.x == 0) {
            i64 i = many ? key / columns : key % rows, j = many ? key % columns : key / rows;
            row[j] = (int)i, found[j] = most, taken[i] = 1;
        }
        __syncthreads();
    }
    for (i64 j = threadIdx.x; all && j < columns; j += blockDim.x) {
        T highest = T(-1);
        bool free = row[j] == -1;
        for (i64 i = 0; free && i < rows; i++) {
            T d = own[i * columns + j];
            if (d >= T(1e-6) && d >= threshold && d > highest) row[j] = (int)i, found[j] = highest = d;
        }
    }
}
"""
UNIT = Unit("matching", SOURCE, instances("match_pairs", REALS))


def _match(call: Call) -> dict:
    (x,), xp, a = call.floats("DistMat"), call.xp, call.attrs
    level = call.level("DistMat") if call.lod("DistMat") else np.asarray([0, x.shape[0]], np.int64)
    images, columns = len(level) - 1, x.shape[1]
    rows, found = xp.full((images, columns), -1, "int32"), xp.zeros((images, columns), x.dtype)
    if images and x.size:
        taken, of = xp.zeros((x.shape[0],), "uint8"), x.dtype.type
        kernel = f"match_pairs<{ctype(x, REALS)}>"
        numbers = (np.int64(columns), np.int32(a["match_type"] == "per_prediction"), of(a["dist_threshold"]))
        call.launch(UNIT, kernel, images, 256, x, offsets_on_device(call, level), rows, found, taken, *numbers)
    return {"ColToRowMatchIndices": rows, "ColToRowMatchDist": found}


def _assign(call: Call) -> dict:
    x, matched, xp = call.array("X"), call.array("MatchIndices"), call.xp
    level, value = call.level("X"), x.dtype.type(call.attrs["mismatch_value"])
    (images, columns), (_, period, _) = matched.shape, x.shape
    if len(level) != images + 1 or matched.dtype.name != "int32" or x.size == 0 or matched.size == 0:
        raise Declined
    ends = offsets_on_device(call, level)
    first, sizes = ends[:-1].reshape(-1, 1), (ends[1:] - ends[:-1]).reshape(-1, 1)
    beyond = xp.where(matched >= sizes, np.int64(1), np.int64(0))
    sticky.check_ids(call, beyond, 0, 1)
    there = matched > -1
    row = xp.where(there, first + xp.minimum(matched, sizes - 1), 0)
    row = xp.clip(row, 0, x.shape[0] - 1)
    picked = x[row, xp.broadcast_to(xp.arange(columns) % period, row.shape)]
    out = xp.where(there[..., None], picked, value)
    weight = there.astype("float32")
    if call.ins.get("NegIndices") is not None:
        negative, of_negative = call.array("NegIndices").reshape(-1), call.level("NegIndices")
        if len(of_negative) != images + 1:
            raise Declined
        sticky.check_ids(call, negative, 0, columns)
        image = images_of(call, of_negative)
        flat = image * columns + xp.clip(negative, 0, columns - 1)
        hit = xp.bincount(flat, minlength=images * columns).reshape(images, columns) > 0
        out, weight = xp.where(hit[..., None], value, out), xp.where(hit, weight.dtype.type(1), weight)
    return {"Out": out, "OutWeight": weight[..., None]}


def _mine(call: Call) -> dict:
    """The boxes of the highest losses. The numbers of negative boxes are LoD, which is host memory: they are read."""
    (loss,), a, xp = call.floats("ClsLoss"), call.attrs, call.xp
    matched, dist = call.array("MatchIndices"), call.array("MatchDist")
    if loss.size == 0 or matched.dtype.name != "int32" or dist.shape != loss.shape or matched.shape != loss.shape:
        raise Declined
    hard = a["mining_type"] == "hard_example"
    if hard and call.ins.get("LocLoss") is not None:
        loss = loss + call.array("LocLoss")
    if hard:
        candidate, most = xp.ones(loss.shape, "bool"), a["sample_size"]
    else:
        candidate = (matched == -1) & (dist.astype("float32") < np.float32(a["neg_dist_threshold"]))
        count = (matched != -1).sum(axis=1, keepdims=True).astype("float32")
        most = (count * np.float32(a["neg_pos_ratio"])).astype("int64")
    # NaN and boxes that are no candidates come last.
    key = xp.where(loss == loss, -loss.astype("float32"), np.float32(np.inf))
    order = xp.argsort(xp.where(candidate, key, np.float32(np.inf)), axis=1, kind="stable")
    order = xp.take_along_axis(order, xp.argsort(xp.take_along_axis(~candidate, order, 1), axis=1, kind="stable"), 1)
    rank = xp.argsort(order, axis=1, kind="stable")
    chosen = candidate & (rank < most)
    updated = xp.where(~chosen & (matched > -1), np.int32(-1), matched) if hard else matched.copy()
    negative = chosen & (matched == -1) if hard else chosen
    counts = np.asarray(call.machine.download(negative.sum(axis=1)))
    call.set_lod("NegIndices", [np.concatenate([[0], np.cumsum(counts)])])
    found = xp.nonzero(negative)[1].astype("int32").reshape(-1, 1)
    return {"NegIndices": found, "UpdatedMatchIndices": updated}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "bipartite_match": _match,
    "target_assign": _assign,
    "mine_hard_examples": _mine,
}
