"""Fused operators over LoD sequences: pooling of several tensors, sums of embeddings, expansion and context windows
with a product, LSTMs and GRUs including the product of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .. import ids, maps
from ..call import Call, Declined, Rows, Shape, ctype, same_dtype
from ..math.gemm import product
from ..rnn.batches import Batches, offsets, optional
from ..rnn.gru import Gru
from ..rnn.lstm import Lstm
from ..units import REALS


def _parts(call: Call, slot: str = "X") -> list:
    parts = call.ins.get(slot) or []
    if not parts or any(p is None or isinstance(p, (Rows, Shape)) for p in parts):
        raise Declined
    same_dtype(*parts)
    ctype(parts[0], REALS)
    return parts


def _one(array: np.ndarray) -> tuple[np.ndarray]:
    return (array,)


def _activated(call: Call, kind: str, x):
    xp = call.xp
    if kind == "sigmoid":
        return 1 / (1 + xp.exp(-xp.clip(x, x.dtype.type(-40), x.dtype.type(13))))
    if kind == "tanh":
        return xp.tanh(x)
    return xp.maximum(x, x.dtype.type(0)) if kind == "relu" else x


def _pool_concat(call: Call) -> dict:
    """The pooled sequences of several tensors side by side; with CVM show and click become logarithms."""
    kind, xp, pooled = call.attrs["pooltype"], call.xp, []
    parts = _parts(call)
    count = offsets_of_part(call, 0).size - 1
    for i, x in enumerate(parts):
        at = offsets_of_part(call, i)
        if at.size != count + 1:
            raise Declined
        ((_, device),) = maps.on_device(call, ("offsets", at.tobytes()), partial(_one, at))
        rows = maps.sums(call, x, device, None, (count, x.shape[1]))
        if kind != "SUM":
            lengths = np.maximum(np.diff(at), 1).astype(x.dtype)
            scale = 1 / (lengths if kind == "AVERAGE" else np.sqrt(lengths))
            key = ("fused pool scale", kind, x.dtype.name, at.tobytes())
            ((_, scale),) = maps.on_device(call, key, partial(_one, scale))
            rows = rows * scale.reshape(-1, 1)
        if call.op == "fusion_seqpool_cvm_concat":
            if x.shape[1] < 2:
                raise Declined
            show = xp.log(rows[:, :1] + 1)
            rows = xp.concatenate([show, xp.log(rows[:, 1:2] + 1) - show, rows[:, 2:]], 1)
        pooled.append(rows)
    call.set_lod("Out", [list(range(count + 1))])
    return {"Out": xp.concatenate(pooled, 1)}


def offsets_of_part(call: Call, index: int) -> np.ndarray:
    """The row offsets of the sequences of one of the tensors of X."""
    levels = call.lod("X", index)
    if not levels:
        raise Declined
    at = np.asarray(levels[0], np.int64)
    for level in levels[1:]:
        at = np.asarray(level, np.int64)[at]
    if at[0] != 0 or at[-1] != call.ins["X"][index].shape[0]:
        raise Declined
    return at


def _expand_fc(call: Call) -> dict:
    parts, w = _parts(call), call.array("FCWeight")
    at = offsets_of_part(call, 0)
    if any(p.shape[0] != at.size - 1 for p in parts[1:]):
        raise Declined
    ends = np.cumsum([0, *(p.shape[1] for p in parts)]).tolist()
    products = [product(call, p, w[a:b]) for p, a, b in zip(parts, ends[:-1], ends[1:], strict=True)]
    out = products[0]
    if call.ins.get("FCBias") is not None:
        out = out + call.array("FCBias").reshape(1, -1)
    counts = np.diff(at)
    ((_, owner),) = maps.on_device(call, ("owners", counts.tobytes()), lambda: (maps.owners(counts),))
    once = sum(products[1:])
    out = out + maps.gather(call, once, owner, out.shape)
    return {"Out": _activated(call, call.attrs["fc_activation"], out)}


def _conv_relu(call: Call) -> dict:
    x, w, a = call.array("X"), call.array("Filter"), call.attrs
    ctype(x, REALS)
    at = offsets(call, "X")
    lengths, start = np.diff(at), a["contextStart"]

    def make() -> tuple:
        owner = maps.owners(lengths)
        step = (np.arange(at[-1]) - at[:-1][owner])[:, None] + start + np.arange(a["contextLength"])
        inside = (step >= 0) & (step < lengths[owner][:, None])
        return (np.where(inside, at[:-1][owner][:, None] + step, -1).reshape(-1),)

    ((_, index),) = maps.on_device(call, ("fused context", start, a["contextLength"], at.tobytes()), make)
    columns = maps.gather(call, x, index, (index.size, x.shape[1])).reshape(x.shape[0], -1)
    out = product(call, columns, w) + call.array("Bias").reshape(1, -1)
    return {"Out": call.xp.maximum(out, out.dtype.type(0))}


def _lstm(call: Call) -> dict:
    net, x = Lstm(call, "X", "WeightH"), call.array("X")
    same_dtype(x, net.weight)
    x = product(call, x.reshape(x.shape[0], -1), call.array("WeightX"))
    _, cells, _, _, states = net.forward(x)
    return {"Hidden": net.batches.scatter(states), "Cell": net.batches.scatter(cells)}


def _embedded_lstm(call: Call) -> dict:
    """The rows of the table are the products of the inputs, with the bias."""
    net, table = Lstm(call, "Ids", "WeightH"), call.array("Embeddings")
    at = ids.checked(call, call.array("Ids").reshape(-1), table.shape[0])
    _, cells, _, _, states = net.forward(maps.gather(call, table, at, (at.size, table.shape[1])), has_bias=True)
    return {"Hidden": net.batches.scatter(states), "Cell": net.batches.scatter(cells)}


def _gru_of(call: Call, x, wx, wh, bias, batches: Batches, h0=None):
    net = Gru(call, wh, batches, h0)
    return batches.scatter(net.forward(product(call, x, wx), bias)[2])


def _gru(call: Call) -> dict:
    x, wh = call.array("X"), call.array("WeightH")
    batches = Batches(call, offsets(call, "X"), call.attrs["is_reverse"])
    given = call.array("WeightX"), wh, optional(call, "Bias", wh), batches, optional(call, "H0", wh)
    return {"Hidden": _gru_of(call, x.reshape(x.shape[0], -1), *given)}


def _multi_gru(call: Call) -> dict:
    x, at = call.array("X"), offsets(call, "X")
    wx, wh = _parts(call, "WeightX"), _parts(call, "WeightH")
    biases = _parts(call, "Bias") if call.ins.get("Bias") else [None] * len(wx)
    x = x.reshape(x.shape[0], -1)
    both = [Batches(call, at, False), Batches(call, at, True)]
    for layer in range(call.attrs["layers"]):
        places = [2 * layer + direction for direction in (0, 1)]
        x = call.xp.concatenate([_gru_of(call, x, wx[i], wh[i], biases[i], both[i % 2]) for i in places], 1)
    return {"Hidden": x}


class _Embeddings:
    """The ids of fused_embedding_seq_pool and the sequences of their rows."""

    def __init__(self, call: Call) -> None:
        self.call, w, given = call, call.ins["W"], call.array("Ids")
        if w is None or isinstance(w, Rows) or call.attrs["combiner"] != "sum":
            raise Declined
        self.at = call.level("Ids")
        self.height, self.width = w.shape
        self.rows = given.shape[0]
        padding = call.attrs["padding_idx"]
        flat = given.reshape(-1)
        self.given = flat
        self.ids = ids.checked(call, flat, self.height, None if padding == -1 else padding)
        self.across = flat.size // max(self.rows, 1)
        self.kept = None if padding == -1 else (flat != padding).astype("int64").reshape(-1, 1)
        if flat.size == 0:
            raise Declined

    def masked(self, rows):
        return rows if self.kept is None else rows * self.kept.astype(rows.dtype)


def _embedding_pool(call: Call) -> dict:
    table, own = call.array("W"), _Embeddings(call)
    ctype(table, REALS)
    rows = own.masked(maps.gather(call, table, own.ids, (own.ids.size, own.width)))
    ((_, device),) = maps.on_device(call, ("offsets", own.at.tobytes()), lambda: (own.at,))
    shape = own.at.size - 1, own.across * own.width
    return {"Out": maps.sums(call, rows.reshape(own.rows, -1), device, None, shape)}


def _embedding_pool_grad(call: Call) -> dict:
    d, own = call.array("Out@GRAD"), _Embeddings(call)
    ctype(d, REALS)
    counts = np.diff(own.at)
    if d.size != counts.size * own.across * own.width:
        raise Declined
    ((_, owner),) = maps.on_device(call, ("owners", counts.tobytes()), lambda: (maps.owners(counts),))
    d = d.reshape(counts.size, -1)
    rows = own.masked(maps.gather(call, d, owner, (own.rows, d.shape[1])).reshape(-1, own.width))
    if call.attrs["is_sparse"]:
        host = np.clip(call.machine.download(own.given).astype("int64"), 0, max(own.height - 1, 0))
        return {"W@GRAD": Rows(host, own.height, rows)}
    return {"W@GRAD": ids.sum_at(call, own.height, own.ids, rows)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "fusion_seqpool_concat": _pool_concat,
    "fusion_seqpool_cvm_concat": _pool_concat,
    "fusion_seqexpand_concat_fc": _expand_fc,
    "fusion_seqconv_eltadd_relu": _conv_relu,
    "fusion_lstm": _lstm,
    "fused_embedding_fc_lstm": _embedded_lstm,
    "fusion_gru": _gru,
    "multi_gru": _multi_gru,
    "fused_embedding_seq_pool": _embedding_pool,
    "fused_embedding_seq_pool_grad": _embedding_pool_grad,
}
