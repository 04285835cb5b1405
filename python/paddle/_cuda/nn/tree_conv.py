"""tree_conv: every node reads its descendants down to a depth. A thread walks the tree below one root and writes the
weights of all nodes for it; the rest are products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import sticky
from ..call import Call, Declined, ctype
from ..math.gemm import product
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
// weights[tree][root][kind][node], zeros before; kinds are left, right, top. `open` has room for 2 * count numbers of
// each root.
template <typename T> __global__ void tree_weights(const int* edges, T* weights, int* open, i64 trees, i64 count,
                                                   i64 each, int depth) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < trees * count; i += (i64)gridDim.x * blockDim.x) {
        const int* own = edges + i / count * each * 2;
        i64 root = i % count, nodes = 1, valid = each;
        for (i64 e = 0; e < each; e++) nodes += own[2 * e] != 0 && own[2 * e + 1] != 0;
        for (i64 e = each - 1; e >= 0; e--)
            if (own[2 * e] == 0 || own[2 * e + 1] == 0) valid = e;
        if (root >= nodes) continue;
        T *left = weights + i * 3 * count, *right = left + count, *top = right + count;
        int *stack = open + i * 2 * count, size = 1;
        stack[0] = (int)root, stack[1] = 0, top[root] = T(1);
        while (size > 0) {
            size--;
            int node = stack[2 * size], level = stack[2 * size + 1] + 1, siblings = 0, index = 0;
            if (level >= depth) continue;
            for (i64 e = 0; e < valid; e++) siblings += own[2 * e] == node + 1;
            for (i64 e = 0; e < valid; e++) {
                if (own[2 * e] != node + 1) continue;
                index++;
                int child = own[2 * e + 1] - 1;
                // The top's weight is above 0 for every node that was seen.
                if (child < 0 || child >= count || top[child] != T(0)) continue;
                double up = (double)(depth - level) / depth;
                double place = siblings == 1 ? 0.5 : (index - 1.0) / (siblings - 1.0), l = (1.0 - up) * place;
                left[child] = T(l), right[child] = T((1.0 - up) * (1.0 - l)), top[child] = T(up);
                stack[2 * size] = child, stack[2 * size + 1] = level, size++;
            }
        }
    }
}
"""
UNIT = Unit("tree_conv", SOURCE, instances("tree_weights", REALS))


def _weights(call: Call, nodes, edges):
    """[trees, roots, kinds, nodes]"""
    xp, (trees, count, _), each = call.xp, nodes.shape, edges.shape[1]
    if nodes.size == 0 or edges.dtype.name != "int32":
        raise Declined
    pairs = xp.ascontiguousarray(edges)
    some = (pairs[..., 0] != 0) & (pairs[..., 1] != 0)
    total = some.astype("int64").sum(axis=1)
    sticky.check_ids(call, total, 0, max(count, 1))
    valid = (xp.cumsum((~some).astype("int64"), axis=1) == 0)[..., None]
    beyond = xp.where(valid & (pairs > total[:, None, None] + 1), count + 1, xp.where(valid, pairs, 1))
    sticky.check_ids(call, beyond.reshape(-1).astype("int64"), 1, count + 1)
    weights, stack = xp.zeros((trees, count, 3, count), nodes.dtype), call.empty((trees * count * 2 * count,), "int32")
    kernel = f"tree_weights<{ctype(nodes, REALS)}>"
    numbers = (*map(np.int64, (trees, count, each)), np.int32(call.attrs["max_depth"]))
    call.launch(UNIT, kernel, grid_of(trees * count, 64), 64, pairs, weights, stack, *numbers)
    return weights


def _patch(call, weights, nodes):
    """[trees, roots, features * kinds]"""
    trees, count, features = nodes.shape
    out = product(call, weights.reshape(trees, count * 3, count), nodes).reshape(trees, count, 3, features)
    return out.swapaxes(2, 3).reshape(trees, count, features * 3)


def _forward(call: Call) -> dict:
    nodes, w = call.floats("NodesVector", "Filter")
    patch = _patch(call, _weights(call, nodes, call.array("EdgeSet")), nodes)
    out = product(call, patch, w.reshape(patch.shape[-1], -1))
    return {"Out": out.reshape(call.shape("Out"))}


def _backward(call: Call) -> dict:
    nodes, w, d = call.floats("NodesVector", "Filter", "Out@GRAD")
    weights = _weights(call, nodes, call.array("EdgeSet"))
    (trees, count, features), depth = nodes.shape, nodes.shape[-1] * 3
    d = d.reshape(trees, count, -1)
    patch = _patch(call, weights, nodes)
    dw = product(call, patch.reshape(-1, depth).T, d.reshape(-1, d.shape[-1]))
    dpatch = product(call, d, w.reshape(depth, -1).T).reshape(trees, count, features, 3).swapaxes(2, 3)
    back = weights.reshape(trees, count * 3, count).swapaxes(1, 2)
    dnodes = product(call, back, dpatch.reshape(trees, count * 3, features))
    return {"NodesVector@GRAD": dnodes, "Filter@GRAD": dw.reshape(w.shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"tree_conv": _forward, "tree_conv_grad": _backward}
