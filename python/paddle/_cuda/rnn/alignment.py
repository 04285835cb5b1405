"""edit_distance (insertions, deletions and substitutions between two sequences) and ctc_align (the labels of an
alignment), by a thread per sequence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import sticky
from ..call import Call, Declined, ctype
from ..units import INTEGERS, Unit, grid_of, instances

SOURCE = r"""
// Sequence i is elements [start[i], start[i] + length[i]). `row` has room for the longest b plus 1 for each sequence.
template <typename I> __global__ void edit_distance(const I* a, const i64* a_start, const i64* a_length, const I* b,
                                                    const i64* b_start, const i64* b_length, int* rows, float* out,
                                                    i64 n, i64 room, int normalized) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        int* row = rows + i * room;
        for (i64 j = 0; j <= b_length[i]; j++) row[j] = (int)j;
        for (i64 k = 0; k < a_length[i]; k++) {
            int corner = row[0];
            row[0] = (int)k + 1;
            for (i64 j = 0; j < b_length[i]; j++) {
                int changed = corner + (a[a_start[i] + k] != b[b_start[i] + j]);
                corner = row[j + 1];
                int least = changed < corner + 1 ? changed : corner + 1;
                row[j + 1] = least < row[j] + 1 ? least : row[j] + 1;
            }
        }
        out[i] = (float)row[b_length[i]] / (normalized ? (float)b_length[i] : 1.0f);
    }
}

// The labels of sequence i from out[start[i]] on, and their number: steps without blanks (a negative blank: none), and
// without repetitions if `merge`.
template <typename I> __global__ void align_labels(const I* x, const i64* start, const i64* length, I* out, i64* count,
                                                   i64 n, i64 blank, int merge) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 found = 0;
        for (i64 k = 0; k < length[i]; k++) {
            i64 at = start[i] + k;
            bool again = merge && k > 0 && x[at] == x[at - 1];
            if (!again && (blank < 0 || (i64)x[at] != blank)) out[start[i] + found++] = x[at];
        }
        count[i] = found;
    }
}
"""
UNIT = Unit("alignment", SOURCE, instances("edit_distance", INTEGERS) + instances("align_labels", INTEGERS))


def _sequences(call: Call, slot: str, lengths: str):
    """(starts, lengths, the longest) of the sequences of an input, on the device: by lengths of rows, else by LoD."""
    x, given = call.array(slot), call.ins.get(lengths)
    if given is not None:
        if x.ndim != 2 or given.size != x.shape[0]:
            raise Declined
        n, width = x.shape
        sticky.check_ids(call, given.reshape(-1), 0, width + 1)
        length = call.xp.clip(given.reshape(-1).astype("int64"), 0, width)
        return call.xp.arange(n, dtype="int64") * width, length, width
    first = call.lod(slot)
    if first and x.size == 1 and first[0] and not any(first[0]):  # marks that all results are empty
        level = np.zeros(len(first[0]), np.int64)
    else:
        level = call.level(slot)
    length = np.diff(level)
    return call.upload(level[:-1].copy()), call.upload(length), int(length.max(initial=0))


def _distance(call: Call) -> dict:
    hyps, refs, xp = call.array("Hyps"), call.array("Refs"), call.xp
    if hyps.dtype != refs.dtype:
        raise Declined
    of_hyps = _sequences(call, "Hyps", "HypsLength")
    of_refs = _sequences(call, "Refs", "RefsLength")
    n = of_hyps[0].size
    normalized = call.attrs["normalized"]
    if n != of_refs[0].size or n == 0:
        raise Declined
    if normalized:
        sticky.check_ids(call, of_refs[1], 1, (1 << 62) - 1)
    room = of_refs[2] + 1
    rows, out = call.empty((n * room,), "int32"), call.empty((n, 1), "float32")
    arrays = (hyps, *of_hyps[:2], refs, *of_refs[:2], rows, out)
    numbers = (np.int64(n), np.int64(room), np.int32(normalized))
    call.launch(UNIT, f"edit_distance<{ctype(hyps, INTEGERS)}>", grid_of(n, 64), 64, *arrays, *numbers)
    return {"Out": out, "SequenceNum": xp.full((1,), n, "int64")}


def _align(call: Call) -> dict:
    x, xp, a = call.array("Input"), call.xp, call.attrs
    padded = call.ins.get("InputLength") is not None and not call.lod("Input")
    if x.ndim != 2 or x.size == 0 or (not padded and x.shape[1] != 1):
        raise Declined
    start, length, _ = _sequences(call, "Input", "InputLength" if padded else "")
    n = start.size
    made, count = xp.full(x.shape, a["padding_value"], x.dtype), call.empty((n,), "int64")
    numbers = (np.int64(n), np.int64(a["blank"]), np.int32(a["merge_repeated"]))
    kernel = f"align_labels<{ctype(x, INTEGERS)}>"
    call.launch(UNIT, kernel, grid_of(n, 64), 64, x, start, length, made, count, *numbers)
    if padded:
        return {"Output": made, "OutputLength": count.astype(x.dtype).reshape(n, 1)}
    counts = np.asarray(call.machine.download(count))
    level = np.concatenate([[0], np.cumsum(counts)])
    call.set_lod("Output", [level])
    if level[-1] == 0:  # as in Paddle an empty result is one -1
        return {"Output": xp.full((1, 1), -1, x.dtype)}
    first = call.level("Input")[:-1]
    at = np.arange(level[-1]) + np.repeat(first - level[:-1], counts)
    return {"Output": xp.take(made.reshape(-1), call.upload(at)).reshape(-1, 1)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"edit_distance": _distance, "ctc_align": _align}
