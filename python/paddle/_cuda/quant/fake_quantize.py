"""Fake quantization by absolute maxima, and dequantization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined


def _bins(call: Call) -> np.float32:
    return np.float32((1 << (call.attrs["bit_length"] - 1)) - 1)


def _rounded(xp, v, away: bool):
    """Halves go to the even neighbour, or (channels of axis 1) away from 0."""
    if not away:
        return xp.rint(v)
    return xp.where(v < 0, -xp.floor(-v + np.float32(0.5)), xp.floor(v + np.float32(0.5)))


def _abs_max(call: Call, x, **axes):
    """The largest absolute value; NaN is ignored."""
    size = abs(x)
    return call.xp.where(size == size, size, np.float32(0)).max(**axes)


def _grid(call: Call, x, scale, back: bool, away: bool = False):
    """X divided by scale on a grid of `bins` steps; `back`: multiplied again. All 0 for a scale of 0."""
    xp, bins = call.xp, _bins(call)
    some = xp.where(scale == 0, np.float32(1), scale)
    steps = _rounded(xp, bins / some * xp.minimum(xp.maximum(x, -some), some), away)
    return xp.where(scale == 0, np.float32(0), steps * some / bins if back else steps)


def _x(call: Call, slot: str = "X"):
    x = call.array(slot)
    if x.dtype.name != "float32" or x.size == 0:
        raise Declined
    return x


def _whole(back: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x = _x(call)
        scale = call.xp.asarray(_abs_max(call, x)).reshape(1)
        return {"Out": _grid(call, x, scale.reshape((1,) * x.ndim), back), "OutScale": scale}

    return launch


def _channels(back: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x, axis = _x(call), call.attrs["quant_axis"]
        if call.attrs.get("is_test"):
            raise Declined
        scales = _abs_max(call, x, axis=tuple(i for i in range(x.ndim) if i != axis), keepdims=True)
        return {"Out": _grid(call, x, scales, back, axis == 1), "OutScale": scales.reshape(-1)}

    return launch


def _average(call: Call, x):
    rate = np.float32(call.attrs["moving_rate"])
    state = rate * call.array("InState") + np.float32(1)
    accum = rate * call.array("InAccum") + _abs_max(call, x)
    return state.reshape(1), accum.reshape(1), (accum / state).reshape(1)


def _moving(back: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x = _x(call)
        if call.attrs["is_test"]:
            scale = call.array("InScale")
            made = {"OutScale": scale.copy()}
            for to, source in (("OutState", "InState"), ("OutAccum", "InAccum")):
                if call.ins.get(source) is not None:
                    made[to] = call.array(source).copy()
        else:
            state, accum, scale = _average(call, x)
            made = {"OutState": state, "OutAccum": accum, "OutScale": scale}
        return {**made, "Out": _grid(call, x, scale.reshape((1,) * x.ndim), back)}

    return launch


def _observe(call: Call) -> dict:
    if call.attrs["is_test"]:
        raise Declined
    state, accum, scale = _average(call, _x(call))
    return {"OutState": state, "OutAccum": accum, "OutScale": scale}


def _range(call: Call) -> dict:
    """By the given scale; in training the scale depends on the former value of an output, which launchers lack."""
    if not call.attrs["is_test"]:
        raise Declined
    x, scale = _x(call), call.array("InScale").reshape(1)
    return {"Out": _grid(call, x, scale.reshape((1,) * x.ndim), False), "OutScale": scale.copy()}


def _straight(call: Call) -> dict:
    return {"X@GRAD": call.array("Out@GRAD").copy()}


def _dequantized(call: Call) -> dict:
    x, scale = call.array("X"), call.array("Scale")
    return {"Out": x.astype(scale.dtype) * scale.reshape((1,) * x.ndim) / scale.dtype.type(call.attrs["max_range"])}


def _by_dictionary(call: Call) -> dict:
    x, table, xp = call.array("X"), call.array("Dict").reshape(-1), call.xp
    at = xp.where(x < 0, x.astype("int32") + 128, x.astype("int32"))
    value = xp.take(table, xp.clip(at, 0, max(table.size - 1, 0)))
    return {"Out": xp.where(x < 0, -value, value)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "fake_quantize_abs_max": _whole(False),
    "fake_quantize_dequantize_abs_max": _whole(True),
    "fake_channel_wise_quantize_abs_max": _channels(False),
    "fake_channel_wise_quantize_dequantize_abs_max": _channels(True),
    "fake_quantize_moving_average_abs_max": _moving(False),
    "fake_quantize_dequantize_moving_average_abs_max": _moving(True),
    "fake_quantize_range_abs_max": _range,
    "moving_average_abs_max_scale": _observe,
    "fake_quantize_dequantize_grad": _straight,
    "fake_dequantize_max_abs": _dequantized,
    "dequantize_abs_max": _dequantized,
    "dequantize_log": _by_dictionary,
}
