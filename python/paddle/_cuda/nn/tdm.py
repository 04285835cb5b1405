"""tdm_child (children of tree nodes) and tdm_sampler (nodes of each leaf's path, with negative samples of the same
layers; a thread draws the samples of one layer of one path)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ids, sticky
from ..call import Call, Declined
from ..random.philox import SOURCE as PHILOX
from ..random.philox import seed_of
from ..units import Unit, grid_of

SOURCE = (
    PHILOX.split("// kind 0")[0]
    + r"""
// For layer l of row i: `count` distinct nodes of the layer (places [first, first + size) of `nodes`) other than the
// path's own, written at column `column` of a row of `width`; zeros where the path does not reach the layer.
__global__ void draw_nodes(const i64* nodes, const i64* own, i64* out, i64 rows, i64 first, i64 size, i64 count,
                           i64 column, i64 width, unsigned long long seed) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < rows; i += (i64)gridDim.x * blockDim.x) {
        i64 *to = out + i * width + column, node = own[i], others = 0;
        for (i64 k = 0; k < size && others < count; k++) others += nodes[first + k] != node;
        unsigned long long at = 0;
        for (i64 k = 0; k < count; k++) {
            if (node == 0 || others < count) {
                to[k] = 0;
                continue;
            }
            bool taken = true;
            while (taken) {
                unsigned r[4];
                philox(seed, (unsigned long long)i << 32 | at++, r);
                i64 place = (i64)(((unsigned long long)r[0] << 32 | r[1]) % (unsigned long long)size);
                taken = nodes[first + place] == node;
                for (i64 j = 0; j < k; j++) taken |= to[j] == place;
                to[k] = place;
            }
        }
        if (node != 0 && others >= count)
            for (i64 k = 0; k < count; k++) to[k] = nodes[first + to[k]];
    }
}
"""
)
UNIT = Unit("tdm", SOURCE, ("draw_nodes",))


def _children(call: Call) -> dict:
    x, tree, xp, count = call.array("X"), call.array("TreeInfo"), call.xp, call.attrs["child_nums"]
    if x.size == 0 or tree.size == 0:
        raise Declined
    shape, dtype = call.shape("Child"), call.dtype("Child")
    at = ids.checked(call, x.reshape(-1), tree.shape[0])
    rows = xp.take(tree, at, axis=0)
    some = ((at != 0) & (rows[:, 3] != 0))[:, None]
    children = xp.where(some, rows[:, 3 : 3 + count].astype("int64"), 0)
    items = xp.take(tree[:, 0], ids.checked(call, children, tree.shape[0]))
    leaves = (items != 0) & some
    return {"Child": children.astype(dtype).reshape(shape), "LeafMask": leaves.astype(dtype).reshape(shape)}


def _sampler(call: Call) -> dict:
    x, xp, a = call.array("X"), call.xp, call.attrs
    travel, nodes = call.array("Travel"), call.array("Layer").reshape(-1)
    ends, counts = a["layer_offset_lod"], a["neg_samples_num_list"]
    rows, shape, dtype = x.shape[0], call.shape("Out"), call.dtype("Out")
    if x.size != rows or travel.ndim != 2 or travel.shape[1] != len(counts) or ends[-1] > nodes.size or 0 in shape:
        raise Declined
    paths = xp.take(travel, ids.checked(call, x.reshape(-1), travel.shape[0]), axis=0).astype("int64")
    nodes = xp.ascontiguousarray(nodes.astype("int64"))
    out, labels, mask = (xp.zeros(shape, "int64") for _ in range(3))
    column = 0
    for layer, count in enumerate(counts):
        own = xp.ascontiguousarray(paths[:, layer])
        sticky.check_ids(call, own, ends[layer], ends[layer + 1] + 1, also=0)
        reached = (own != 0).astype("int64")
        width = count + int(a["output_positive"])
        mask[:, column : column + width] = reached[:, None]
        if a["output_positive"]:
            out[:, column], labels[:, column] = own, reached
            column += 1
        if count:
            numbers = (rows, ends[layer], ends[layer + 1] - ends[layer], count, column, shape[1])
            arrays, seed = (nodes, own, out), seed_of(call, layer)
            call.launch(UNIT, "draw_nodes", grid_of(rows, 64), 64, *arrays, *map(np.int64, numbers), seed)
            column += count
    return {"Out": out.astype(dtype), "Labels": labels.astype(dtype), "Mask": mask.astype(dtype)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"tdm_child": _children, "tdm_sampler": _sampler}
