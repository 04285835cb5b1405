"""hierarchical_sigmoid: a loss over the nodes on the path from the root of a class tree to a leaf."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ids
from ..call import Call, Declined, Rows
from ..math.gemm import product

# Scores are clipped to +-MOST before the sigmoid.
MOST = 40.0


def _paths(call: Call, n: int, weights: int):
    """[n, length]: rows of W (0 after the end of a path), branches, and which nodes exist."""
    xp, classes = call.xp, call.attrs["num_classes"]
    if call.ins.get("PathTable") is not None:
        table, code = call.array("PathTable"), call.array("PathCode")
        if table.shape != code.shape or table.ndim != 2 or table.shape[0] != n:
            raise Declined
        ends = xp.cumsum((table < 0).astype("int64"), axis=1) > 0
        there, nodes, branch = ~ends, xp.where(ends, 0, table), code != 0
    else:
        label = call.array("Label").reshape(-1)[:n]
        leaf = (ids.checked(call, label, classes) + classes).reshape(n, 1)
        bits = xp.arange((classes - 1).bit_length(), dtype="int64")
        there = (leaf >> (bits + 1)) > 0
        nodes, branch = xp.where(there, (leaf >> (bits + 1)) - 1, 0), ((leaf >> bits) & 1) == 1
    return ids.checked(call, nodes.astype("int64"), weights), branch & there, there


def _operands(call: Call):
    x, w = call.floats("X", "W")
    if x.size == 0 or w.size == 0 or call.attrs["remote_prefetch"]:
        raise Declined
    return x, w, _paths(call, x.shape[0], w.shape[0])


def _forward(call: Call) -> dict:
    x, w, (nodes, branch, there) = _operands(call)
    xp, of = call.xp, x.dtype.type
    score = product(call, xp.take(w, nodes, axis=0), x.reshape(*x.shape, 1))[..., 0]
    if call.ins.get("Bias") is not None:
        score = score + xp.take(call.array("Bias").reshape(-1), nodes)
    score = xp.where(there, xp.clip(score, of(-MOST), of(MOST)), of(0))
    pre = xp.log(1 + xp.exp(score))
    loss = pre.sum(axis=1, keepdims=True) - xp.where(branch, score, of(0)).sum(axis=1, keepdims=True)
    return {"Out": loss, "PreOut": pre, "W_Out": xp.empty((0,), x.dtype)}


def _backward(call: Call) -> dict:
    x, w, (nodes, branch, there) = _operands(call)
    xp, of, n = call.xp, x.dtype.type, x.shape[0]
    pre, d = call.array("PreOut").reshape(nodes.shape), call.array("Out@GRAD").reshape(n, 1)
    g = xp.where(there, (1 - xp.exp(-pre) - branch.astype(x.dtype)) * d, of(0))
    made = {"X@GRAD": product(call, g.reshape(n, 1, -1), xp.take(w, nodes, axis=0)).reshape(x.shape)}
    if call.ins.get("Bias") is not None and call.wanted["Bias@GRAD"]:
        bias = call.array("Bias")
        made["Bias@GRAD"] = ids.sum_at(call, bias.size, nodes.reshape(-1), g.reshape(-1)).reshape(bias.shape)
    if call.wanted["W@GRAD"]:
        rows = (g[..., None] * x.reshape(n, 1, -1)).reshape(-1, x.shape[1])
        if not call.attrs["is_sparse"]:
            made["W@GRAD"] = ids.sum_at(call, w.shape[0], nodes.reshape(-1), rows)
        else:  # the rows of a SelectedRows are host memory
            flat, exists = (np.asarray(call.machine.download(v.reshape(-1))) for v in (nodes, there))
            used = np.unique(flat[exists])
            at = xp.searchsorted(xp.asarray(used), nodes.reshape(-1), side="left")
            at = xp.clip(at, 0, max(used.size - 1, 0)).astype("int64")
            made["W@GRAD"] = Rows(used, w.shape[0], ids.sum_at(call, used.size, at, rows))
    return made


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "hierarchical_sigmoid": _forward,
    "hierarchical_sigmoid_grad": _backward,
}
