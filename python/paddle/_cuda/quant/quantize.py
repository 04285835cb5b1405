"""int8 conversions of inference Programs: quantize, requantize, dequantize; tables stored as bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import conversion, ids
from ..call import Call, Declined


def _byte(xp, v, dtype: str):
    """Rounded to the nearest, ties to even, and saturated; NaN is 0."""
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    return xp.clip(xp.rint(xp.where(v == v, v, np.float32(0))), np.float32(low), np.float32(high)).astype(dtype)


def _shape_and_type(call: Call) -> tuple[tuple[int, ...], str]:
    return call._rule["Output"]


def _quantize(call: Call) -> dict:
    x, a = call.array("Input"), call.attrs
    dtype = _shape_and_type(call)[1]
    y = x * np.float32(a["Scale"])
    if dtype != "int8":
        y = y + np.float32(np.trunc(a["Shift"]))
    return {"Output": conversion.convert(call, y, "uint16") if dtype == "bfloat16" else _byte(call.xp, y, dtype)}


def _dequantize(call: Call) -> dict:
    x, a = call.array("Input"), call.attrs
    factor, shift = np.float32(1) / np.float32(a["Scale"]), -np.float32(a["Shift"]) / np.float32(a["Scale"])
    return {"Output": factor * x.astype("float32") + shift}


def _requantize(call: Call) -> dict:
    x, a = call.array("Input"), call.attrs
    factor, y = np.float32(a["Scale_out"]) / np.float32(a["Scale_in"]), x.astype("float32")
    y = factor * y
    if a["Shift_in"] or a["Shift_out"]:
        # The shift is a byte, too.
        shift = float(np.float32(a["Shift_out"]) - factor * np.float32(a["Shift_in"]))
        y = y + np.float32(min(max(np.floor(shift + 0.5), 0), 255))
    return {"Output": _byte(call.xp, y, _shape_and_type(call)[1])}


def _channels(call: Call) -> dict:
    """fake_channel_wise_dequantize_max_abs."""
    x, scales, a = call.array("X"), call.ins["Scales"], call.attrs
    axis = 1 if len(scales) == 2 else a["quant_axis"]
    wide = [1] * x.ndim
    wide[axis] = -1
    levels = float(np.prod([(1 << (bits - 1)) - 1 for bits in a["quant_bits"][: len(scales)]], dtype=np.float64))
    y = x * scales[0].reshape(wide)
    if len(scales) == 2:
        y = y * scales[1].reshape((1,) * x.ndim)
    return {"Out": y / x.dtype.type(levels)}


def _rows_of_bytes(call: Call) -> dict:
    """A row of W: least and greatest number, then bytes, four in each float32."""
    w, xp, padding = call.array("W"), call.xp, call.attrs["padding_idx"]
    given = call.array("Ids").reshape(-1)
    if w.dtype.name != "float32" or given.size == 0:
        raise Declined
    at = ids.checked(call, given, w.shape[0], also=None if padding == -1 else padding)
    rows = xp.take(w, at, axis=0)
    packed = xp.ascontiguousarray(rows[:, 2:]).view("uint8").astype("float32")
    least, step = rows[:, 0:1], (rows[:, 1:2] - rows[:, 0:1]) / np.float32(256)
    y = step * packed + least
    if padding != -1:
        y = xp.where((given == padding)[:, None], np.float32(0), y)
    return {"Out": y.reshape(call.shape("Out"))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "requantize": _requantize,
    "fake_channel_wise_dequantize_max_abs": _channels,
    "lookup_table_dequant": _rows_of_bytes,
}
