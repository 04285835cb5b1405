"""check_finite_and_unscale and update_loss_scaling: scale, counts and the result of the check stay on the device."""

from __future__ import annotations

import numpy as np

from ..call import Call, Declined, Rows, Shape, ctype
from ..units import FLOATS, REALS, Unit, grid_of

SOURCE = r"""
// As in 2.0.2's GPU kernel: the rounded product decides, and is stored even where it is not finite.
template <typename T, typename S> __global__ void unscale(const T* x, const S* scale, T* out, bool* found, i64 n) {
    S inverse = S(1) / scale[0];
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        T v = narrow_to<T>::of(typename acc<T>::type(S(wide(x[i])) * inverse));
        out[i] = v;
        typename acc<T>::type w = wide(v);
        if (!(w - w == 0)) found[0] = true;
    }
}

template <typename S> __global__ void scaling(const bool* found, S* scale, int* good, int* bad, int incr_every,
                                              int decr_every, float incr, float decr) {
    int* count = found[0] ? bad : good;
    (found[0] ? good : bad)[0] = 0;
    count[0] += 1;
    if (count[0] != (found[0] ? decr_every : incr_every)) return;
    count[0] = 0;
    S next = scale[0] * S(found[0] ? decr : incr);
    if (found[0])
        scale[0] = next < S(1) ? S(1) : next;
    else if (next - next == 0)
        scale[0] = next;
}
"""
UNIT = Unit(
    "loss_scaling",
    SOURCE,
    (
        "unscale<half_t, float>",
        "unscale<bf16_t, float>",
        "unscale<float, float>",
        "unscale<double, double>",
        "scaling<float>",
        "scaling<double>",
    ),
)


def _gradients(call: Call) -> list:
    values = call.ins["X"]
    if not values or any(v is None or isinstance(v, (Rows, Shape)) for v in values):
        raise Declined
    return values


def _unscale(call: Call) -> dict:
    arrays, scale = _gradients(call), call.array("Scale")
    found = call.xp.zeros(1, "bool")
    outs = [call.empty(x.shape, x.dtype) for x in arrays]
    for x, out in zip(arrays, outs, strict=True):
        t = ctype(x, FLOATS)
        of = "double" if t == "double" else "float"
        if REALS.get(scale.dtype.name) != of:
            raise Declined
        if x.size:
            args = x, scale, out, found, np.int64(x.size)
            call.launch(UNIT, f"unscale<{t}, {of}>", grid_of(x.size), 256, *args)
    return {"Out": outs, "FoundInfinite": found}


def _scaling(call: Call) -> dict:
    arrays, found, a = _gradients(call), call.array("FoundInfinite"), call.attrs
    scale, good, bad = (call.old(slot) for slot in ("LossScaling", "OutGoodSteps", "OutBadSteps"))
    if found.dtype.name != "bool" or any(v.dtype.name != "int32" for v in (good, bad)):
        raise Declined
    for x in arrays:
        ctype(x, FLOATS)
    outs = [call.xp.where(found, x.dtype.type(0), x) for x in arrays]
    if not a["stop_update"]:
        every = np.int32(a["incr_every_n_steps"]), np.int32(a["decr_every_n_nan_or_inf"])
        ratios = np.float32(a["incr_ratio"]), np.float32(a["decr_ratio"])
        call.launch(UNIT, f"scaling<{ctype(scale, REALS)}>", 1, 1, found, scale, good, bad, *every, *ratios)
    return {"Out": outs, "LossScaling": scale, "OutGoodSteps": good, "OutBadSteps": bad}


LAUNCHERS = {"check_finite_and_unscale": _unscale, "update_loss_scaling": _scaling}
