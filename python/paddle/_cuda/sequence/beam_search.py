"""beam_search: the best continuations of one step. A thread selects those of a source; their numbers are LoD, which is
host memory, so that the selection is read by the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined
from ..maps import offsets_on_device
from ..units import Unit, grid_of

SOURCE = r"""
// The best `most` candidates of each source, by descending score, of equal ones by descending prefix: candidate numbers
// (prefix * width + column, or -1 - prefix for an ended prefix) and scores. count is 0 where all sentences have ended.
__global__ void best_candidates(const i64* pre_ids, const float* pre_scores, const i64* ids, const float* scores,
                                const i64* source, i64* chosen, float* values, i64* count, i64 sources, i64 width,
                                i64 most, i64 end, int accumulated) {
    for (i64 s = blockIdx.x * (i64)blockDim.x + threadIdx.x; s < sources; s += (i64)gridDim.x * blockDim.x) {
        i64 *to = chosen + s * most, held = 0;
        float* of = values + s * most;
        for (i64 p = source[s]; p < source[s + 1]; p++) {
            bool ended = pre_ids[p] == end;
            for (i64 k = 0; k < (ended ? 1 : width); k++) {
                float score = ended ? pre_scores[p] : scores[p * width + k];
                if (!ended && !accumulated) score = pre_scores[p] + log(score);
                // Prefixes ascend: of equal scores the later one is better; of one prefix it only takes the last place.
                if (held == most && score < of[most - 1]) continue;
                held -= held == most;
                i64 at = held;
                while (at > 0) {
                    i64 before = to[at - 1] < 0 ? -1 - to[at - 1] : to[at - 1] / width;
                    if (!(of[at - 1] < score || (of[at - 1] == score && before < p))) break;
                    at--;
                }
                for (i64 j = held++; j > at; j--) to[j] = to[j - 1], of[j] = of[j - 1];
                to[at] = ended ? -1 - p : p * width + k, of[at] = score;
            }
        }
        bool open = false;
        for (i64 j = 0; j < held; j++)
            open |= to[j] >= 0;
        count[s] = open ? held : 0;
    }
}
"""
UNIT = Unit("beam_search", SOURCE, ("best_candidates",))


def _search(call: Call) -> dict:
    scores, xp, a = call.array("scores"), call.xp, call.attrs
    pre_ids, pre_scores, ids = call.array("pre_ids"), call.array("pre_scores"), call.ins.get("ids")
    lod, most = call.lod("scores"), a["beam_size"]
    level = a["level"]
    if len(lod) <= level or scores.dtype.name != "float32" or pre_ids.dtype.name != "int64" or most < 1:
        raise Declined
    # Offsets of a level in rows.
    sources = np.asarray(lod[level], np.int64)
    for below in lod[level + 1 :]:
        sources = np.asarray(below, np.int64)[sources]
    prefixes, n = int(sources[-1]), len(sources) - 1
    if prefixes == 0 or scores.shape[0] < prefixes or pre_ids.size < prefixes or pre_scores.size < prefixes or n == 0:
        raise Declined
    width = scores.size // scores.shape[0]
    chosen, values, count = call.empty((n, most), "int64"), call.empty((n, most), "float32"), call.empty((n,), "int64")
    numbers = (*map(np.int64, (n, width, most, a["end_id"])), np.int32(a["is_accumulated"]))
    given = np.uint64(0) if ids is None else ids
    arrays = (pre_ids, pre_scores, given, scores, offsets_on_device(call, sources), chosen, values, count)
    call.launch(UNIT, "best_candidates", grid_of(n, 32), 32, *arrays, *numbers)
    picked, counts = (np.asarray(call.machine.download(v)) for v in (chosen, count))
    flat = np.concatenate([np.arange(c) + s * most for s, c in enumerate(counts)]).astype(np.int64)
    candidate = picked.reshape(-1)[flat]
    prefix = np.where(candidate < 0, -1 - candidate, candidate // width)
    order = np.argsort(prefix, kind="stable")
    flat, candidate, prefix = flat[order], candidate[order], prefix[order]
    ends = np.concatenate([[0], np.cumsum(np.bincount(prefix, minlength=prefixes))])
    for slot in ("selected_ids", "selected_scores"):
        call.set_lod(slot, [sources, ends])
    at = call.upload(np.maximum(candidate, 0))
    token = at % width if ids is None else xp.take(ids.reshape(-1), at)
    token = xp.where(call.upload(candidate < 0), np.int64(a["end_id"]), token)
    return {
        "selected_ids": token.reshape(-1, 1),
        "selected_scores": xp.take(values.reshape(-1), call.upload(flat)).reshape(-1, 1),
        "parent_idx": call.upload(prefix.astype(np.int32)),
    }


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"beam_search": _search}
