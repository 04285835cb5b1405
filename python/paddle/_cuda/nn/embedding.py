"""Embedding lookup and its gradient."""

from __future__ import annotations

import numpy as np

from .. import sticky, strided
from ..call import Call, Declined, Rows, ctype
from ..rows import UNIT, add_rows
from ..units import FLOATS, INTEGERS, block_of


def _padding(call: Call) -> np.int64:
    return np.int64(call.attrs["padding_idx"])


def _lookup(call: Call) -> dict:
    table, ids = call.array("W"), call.array("Ids")
    if table.ndim != 2 or ids.dtype.name not in INTEGERS:
        raise Declined
    height, width = table.shape
    out = call.out("Out")
    if out.size:
        call.launch(
            UNIT,
            f"gather<{ctype(table, FLOATS)}, {INTEGERS[ids.dtype.name]}>",
            min(ids.size, 65535),
            block_of(width),
            table,
            ids,
            out,
            *sticky.word(call, 0, height),
            np.int64(ids.size),
            np.int64(height),
            np.int64(width),
            _padding(call),
        )
    return {"Out": out}


def _lookup_grad(call: Call) -> dict:
    table, ids, dout = call.ins["W"], call.array("Ids"), call.array("Out@GRAD")
    if isinstance(table, Rows) or table is None or len(table.shape) != 2 or ids.dtype.name not in INTEGERS:
        raise Declined
    height, width = table.shape
    if dout.size != ids.size * width:
        raise Declined
    ctype(dout, FLOATS)
    if call.attrs["is_sparse"]:
        rows = call.machine.download(ids.reshape(-1)).astype("int64")
        return {"W@GRAD": Rows(rows, height, dout.reshape(ids.size, width))}
    grad = strided.full(call, (height, width), dout.dtype)
    add_rows(call, grad, ids.reshape(-1), dout, _padding(call))
    return {"W@GRAD": grad}


LAUNCHERS = dict.fromkeys(("lookup_table", "lookup_table_v2"), _lookup)
LAUNCHERS.update(dict.fromkeys(("lookup_table_grad", "lookup_table_v2_grad"), _lookup_grad))
