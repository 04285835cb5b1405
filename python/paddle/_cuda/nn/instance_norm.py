"""instance_norm and its gradient: layer_norm of rows that are the channels of images, whose parameters are those of
channels."""

from __future__ import annotations

from ..call import Call, Declined, ctype, same_dtype
from ..units import KEPT, KEPT_PAIRS, REALS
from .layer_norm import NULL, start, summed


def _sizes(x):
    """Images, channels, and elements per channel of an image."""
    if x.size == 0:
        raise Declined
    images, channels = x.shape[:2]
    return images, channels, x.size // (images * channels)


def _parameter(call: Call, slot: str, x, channels: int):
    if call.ins.get(slot) is None:
        return NULL
    array = call.array(slot)
    same_dtype(array, x)
    if array.size != channels:
        raise Declined
    return array


def _instance_norm(call: Call) -> dict:
    x = call.array("X")
    t = ctype(x, REALS)
    images, channels, n = _sizes(x)
    scale, bias = (_parameter(call, slot, x, channels) for slot in ("Scale", "Bias"))
    y, mean, inverse = call.out("Y"), call.out("SavedMean"), call.out("SavedVariance")
    sizes, arrays = (images * channels, n, channels), (x, scale, bias, y, mean, inverse)
    start(call, f"layer_norm<{t}, {t}, {t}, true", KEPT, x, sizes, arrays, x.dtype.type(call.attrs["epsilon"]))
    return {"Y": y, "SavedMean": mean, "SavedVariance": inverse}


def _instance_norm_grad(call: Call) -> dict:
    x, dy, mean, inverse = (call.array(s) for s in ("X", "Y@GRAD", "SavedMean", "SavedVariance"))
    same_dtype(x, dy, mean, inverse)
    t = ctype(x, REALS)
    images, channels, n = _sizes(x)
    rows = images * channels
    if dy.shape != x.shape or mean.size != rows or inverse.size != rows:
        raise Declined
    scale = _parameter(call, "Scale", x, channels)
    dx, dots, sums = call.out("X@GRAD"), call.empty((rows,), x.dtype), call.empty((rows,), x.dtype)
    sizes, arrays = (rows, n, channels), (x, dy, scale, mean, inverse, dx, dots, sums)
    start(call, f"layer_norm_grad<{t}, {t}, {t}, ROWS", KEPT_PAIRS, x, sizes, arrays, x.dtype.type(0))
    out = {"X@GRAD": dx}
    if call.wanted["Scale@GRAD"] or call.wanted["Bias@GRAD"]:
        out.update(summed(call, tuple(v.reshape(images, channels) for v in (dots, sums)), None, None))
    return out


LAUNCHERS = {"instance_norm": _instance_norm, "instance_norm_grad": _instance_norm_grad}
