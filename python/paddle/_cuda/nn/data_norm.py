"""data_norm: columns normalized by accumulated statistics; a slot of columns that begins with 0 takes no part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined


def _shown(call: Call, x):
    """1 for elements of slots that take part; None if all do."""
    slot = call.attrs["slot_dim"]
    if slot <= 0:
        return None
    bound, xp = np.float32(1e-7), call.xp
    first = x.reshape(x.shape[0], -1, slot)[:, :, :1]
    hidden = (first > -bound) & (first < bound)
    shown = xp.where(hidden, x.dtype.type(0), x.dtype.type(1))
    return xp.broadcast_to(shown, (x.shape[0], x.shape[1] // slot, slot)).reshape(x.shape)


def _rows(call: Call):
    (x,) = call.floats("X")
    if x.ndim != 2 or x.size == 0:
        raise Declined
    return x


def _data_norm(call: Call) -> dict:
    x, xp = _rows(call), call.xp
    size, total, squares = call.floats("BatchSize", "BatchSum", "BatchSquareSum")
    means, scales = total / size, xp.sqrt(size / squares)
    y = (x - means) * scales
    if call.attrs["enable_scale_and_shift"]:
        y = y * call.array("scale_w") + call.array("bias")
    shown = _shown(call, x)
    if shown is not None:
        y = xp.where(shown == 0, x.dtype.type(0), y)
    return {"Y": y, "Means": means, "Scales": scales}


def _data_norm_grad(call: Call) -> dict:
    """The gradients of the statistics are the contributions of this batch to them."""
    x, xp, a = _rows(call), call.xp, call.attrs
    d, means, scales = call.floats("Y@GRAD", "Means", "Scales")
    of, off, shown = x.dtype.type, x - means, _shown(call, x)
    w = call.ins.get("scale_w") if a["enable_scale_and_shift"] else None
    dx = d * scales if w is None else d * scales * w
    mask = xp.ones(x.shape, x.dtype) if shown is None else shown
    size, total, squares = mask.sum(axis=0), (x * mask).sum(axis=0), (off * off * mask).sum(axis=0)
    epsilon = of(a["epsilon"])
    if shown is None:
        squares = squares + size * epsilon
    else:
        some, by = size >= 1, xp.maximum(size, of(1))
        squares = xp.where(some, squares / by + size * epsilon, squares)
        total, size = xp.where(some, total / by, total), xp.where(some, of(1), size)
    return {
        "X@GRAD": dx * mask,
        "BatchSize@GRAD": size,
        "BatchSum@GRAD": total,
        "BatchSquareSum@GRAD": squares,
        "scale_w@GRAD": (off * scales * d * mask).sum(axis=0),
        "bias@GRAD": (d * mask).sum(axis=0),
    }


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"data_norm": _data_norm, "data_norm_grad": _data_norm_grad}
