"""Permutations of elements, cast, and their gradients."""

from __future__ import annotations

from collections.abc import Callable

from .. import strided
from ..call import NUMPY_NAMES, Call, Declined
from ..conversion import convert


def _also(call: Call, result: dict) -> dict:
    """`result`, plus XShape (which has no elements) if it is wanted."""
    return {**result, "XShape": call.out("XShape")} if call.wanted.get("XShape") else result


def _moved(source: str, to: str, move: Callable) -> Callable[[Call], dict]:
    """A launcher: `move(xp, array, attributes)` of the elements of `source`."""

    def launch(call: Call) -> dict:
        x = call.array(source)
        return _also(call, {to: move(call.xp, x, call.attrs).reshape(call.shape(to))})

    return launch


def _rolled(sign: int) -> Callable:
    def move(xp, x, attrs):
        shifts = [sign * s for s in attrs["shifts"]]
        return xp.roll(x, tuple(shifts), tuple(attrs["axis"]))

    return move


def _triangle(xp, x, attrs):
    return (xp.tril if attrs["lower"] else xp.triu)(x, attrs["diagonal"])


def _groups(xp, x, attrs):
    n, c, h, w = x.shape
    return x.reshape(n, attrs["group"], -1, h, w).swapaxes(1, 2)


def _groups_back(xp, d, attrs):
    n, c, h, w = d.shape
    return d.reshape(n, -1, attrs["group"], h, w).swapaxes(1, 2)


def _pixels(xp, x, attrs):
    r = attrs["upscale_factor"]
    if attrs["data_format"] != "NCHW" or x.ndim != 4:
        raise Declined
    n, c, h, w = x.shape
    return x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)


def _pixels_back(xp, d, attrs):
    r = attrs["upscale_factor"]
    if attrs["data_format"] != "NCHW" or d.ndim != 4:
        raise Declined
    n, c, h, w = d.shape
    return d.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)


def _transpose(call: Call) -> dict:
    return _also(call, {"Out": strided.transposed(call, call.array("X"), call.attrs["axis"])})


def _transpose_grad(call: Call) -> dict:
    order, d = call.attrs["axis"], call.array("Out@GRAD")
    back = sorted(range(len(order)), key=lambda i: order[i] % d.ndim)
    return {"X@GRAD": strided.transposed(call, d, back)}


def _flipped(xp, x, attrs):
    return xp.flip(x, tuple({axis % x.ndim for axis in attrs["axis"]}))


def _cast(call: Call) -> dict:
    x, name = call.array("X"), call._rule["Out"][1]
    if x.dtype.kind == "c" or name.startswith("complex"):
        return {"Out": x.astype(call.dtype("Out"))}
    return {"Out": convert(call, x, NUMPY_NAMES.get(name, name))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(("transpose", "transpose2"), _transpose),
    **dict.fromkeys(("transpose_grad", "transpose2_grad"), _transpose_grad),
    **dict.fromkeys(("flip", "reverse"), _moved("X", "Out", _flipped)),
    "roll": _moved("X", "Out", _rolled(1)),
    "roll_grad": _moved("Out@GRAD", "X@GRAD", _rolled(-1)),
    "tril_triu": _moved("X", "Out", _triangle),
    "tril_triu_grad": _moved("Out@GRAD", "X@GRAD", _triangle),
    "shuffle_channel": _moved("X", "Out", _groups),
    "shuffle_channel_grad": _moved("Out@GRAD", "X@GRAD", _groups_back),
    "pixel_shuffle": _moved("X", "Out", _pixels),
    "pixel_shuffle_grad": _moved("Out@GRAD", "X@GRAD", _pixels_back),
    "cast": _cast,
}
