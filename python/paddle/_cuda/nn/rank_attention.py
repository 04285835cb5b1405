"""rank_attention: features of other samples times the parameter block of both ranks."""

from __future__ import annotations

from collections.abc import Callable

from .. import ids, sticky
from ..call import Call, Declined
from ..math.gemm import product


class _Pairs:
    """For each place of RankOffset: whether rows have a term there, the row of X that it reads, and its block."""

    def __init__(self, call: Call, rows: int) -> None:
        self.call, self.xp, self.ranks = call, call.xp, call.attrs["MaxRank"]
        self.offset = call.array("RankOffset")
        if self.offset.dtype.name != "int32" or rows == 0:
            raise Declined
        self.rows, self.own = rows, self.offset[:, 0]

    def place(self, k: int):
        xp, ranks = self.xp, self.ranks
        rank, row = self.offset[:, 1 + 2 * k], self.offset[:, 2 + 2 * k]
        there = (self.own >= 1) & (rank >= 1)
        for value, high in ((self.own - 1, ranks), (rank - 1, ranks), (row, self.rows)):
            sticky.check_ids(self.call, xp.where(there, value, 0).astype("int64"), 0, high)
        block = xp.clip((self.own - 1) * ranks + rank - 1, 0, ranks * ranks - 1)
        return there, xp.clip(row, 0, self.rows - 1).astype("int64"), block.astype("int64")


def _forward(call: Call) -> dict:
    (x, w), xp = call.floats("X", "RankParam"), call.xp
    if x.size == 0 or w.size == 0:
        raise Declined
    pairs, (n, features), columns = _Pairs(call, x.shape[0]), x.shape, w.shape[1]
    blocks, out, helped = w.reshape(-1, features, columns), xp.zeros((n, columns), x.dtype), []
    for k in range(pairs.ranks):
        there, row, block = pairs.place(k)
        part = xp.where(there[:, None], xp.take(x, row, axis=0), x.dtype.type(0))
        helped.append(part)
        out = out + product(call, part.reshape(n, 1, features), xp.take(blocks, block, axis=0)).reshape(n, columns)
    rank = pairs.own.astype(x.dtype).reshape(n, 1)
    return {"Out": out, "InputHelp": xp.stack(helped, 1).reshape(n, -1), "InsRank": rank}


def _backward(call: Call) -> dict:
    (x, d), xp = call.floats("X", "Out@GRAD"), call.xp
    shape = tuple(call.ins["RankParam"].shape)
    if x.size == 0 or 0 in shape:
        raise Declined
    pairs, (n, features), columns = _Pairs(call, x.shape[0]), x.shape, shape[1]
    dw = xp.zeros((pairs.ranks**2, features * columns), x.dtype)
    for k in range(pairs.ranks):
        there, row, block = pairs.place(k)
        part = xp.where(there[:, None], xp.take(x, row, axis=0), x.dtype.type(0))
        ids.add_at(call, dw, block, (part.reshape(n, features, 1) * d.reshape(n, 1, columns)).reshape(n, -1))
    return {"RankParam@GRAD": dw.reshape(shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"rank_attention": _forward, "rank_attention_grad": _backward}
