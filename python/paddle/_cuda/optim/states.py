"""Optimizers with accumulators, for dense gradients, by CuPy functions. Parameters and accumulators are updated in
place; learning rates stay on the device, so that the host does not wait."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call, Declined, Rows, ctype, same_dtype
from ..units import REALS


def _rule(outs: str, rates: str, step: Callable) -> Callable[[Call], dict]:
    """A launcher: `step(xp, attributes, g, rates.., param, states..)` returns the new parameter and states."""

    def launch(call: Call) -> dict:
        slots = outs.split()
        old = [call.old(slot) for slot in slots]
        grad, *given = (call.array(slot) for slot in ["Grad", *rates.split()])
        ctype(old[0], REALS)
        same_dtype(grad, *given, *old)
        if any(r.size != 1 for r in given) or any(v.shape != grad.shape for v in old):
            raise Declined
        attrs = {k: grad.dtype.type(v) if isinstance(v, float) else v for k, v in call.attrs.items()}
        new = step(call.xp, attrs, grad, *[r.reshape(()) for r in given], *old)
        for array, value in zip(old, new, strict=True):
            array[...] = value
        return dict(zip(slots, old, strict=True))

    return launch


def _adagrad(xp, a, g, rate, param, moment):
    moment = moment + g * g
    return param - rate * g / (xp.sqrt(moment) + a["epsilon"]), moment


def _decayed_adagrad(xp, a, g, rate, param, moment):
    moment = a["decay"] * moment + (1 - a["decay"]) * g * g
    return param - rate * g / (xp.sqrt(moment) + a["epsilon"]), moment


def _adadelta(xp, a, g, param, squares, steps):
    squares = a["rho"] * squares + (1 - a["rho"]) * g * g
    step = -xp.sqrt((steps + a["epsilon"]) / (squares + a["epsilon"])) * g
    return param + step, squares, a["rho"] * steps + (1 - a["rho"]) * step * step


def _adamax(xp, a, g, rate, power, param, moment, norm):
    moment = a["beta1"] * moment + (1 - a["beta1"]) * g
    norm = xp.maximum(abs(g), a["beta2"] * norm + a["epsilon"])
    return param - rate / (1 - power) * moment / norm, moment, norm


def _rmsprop(xp, a, g, rate, param, moment, square):
    if a["centered"]:
        raise Declined
    square = a["decay"] * square + (1 - a["decay"]) * g * g
    moment = a["momentum"] * moment + rate * g / xp.sqrt(square + a["epsilon"])
    return param - moment, moment, square


def _centered(xp, a, g, rate, param, moment, square, mean):
    """rmsprop with all its states; without `centered` the mean is unchanged."""
    if not a["centered"]:
        return (*_rmsprop(xp, a, g, rate, param, moment, square), mean)
    square = a["decay"] * square + (1 - a["decay"]) * g * g
    mean = a["decay"] * mean + (1 - a["decay"]) * g
    moment = a["momentum"] * moment + rate * g / xp.sqrt(square - mean * mean + a["epsilon"])
    return param - moment, moment, square, mean


def _rmsprop_of(call: Call) -> dict:
    states = "ParamOut MomentOut MeanSquareOut"
    if "MeanGradOut" in call._old:
        return _rule(f"{states} MeanGradOut", "LearningRate", _centered)(call)
    return _rule(states, "LearningRate", _rmsprop)(call)


def _ftrl(xp, a, g, rate, param, squares, linear):
    of = g.dtype.type
    l1, l2 = a["l1"] + of(1e-10), a["l2"] + of(1e-10)
    total = squares + g * g
    plain = a["lr_power"] == of(-0.5)
    old, new = ((xp.sqrt(v) if plain else v ** -a["lr_power"]) for v in (squares, total))
    linear = linear + g - (new - old) / rate * param
    step = (l1 * xp.sign(linear) - linear) / (new / rate + 2 * l2)
    return xp.where(abs(linear) > l1, step, of(0)), total, linear


def _proximal(xp, a, p, rate):
    if a["l1"] > 0:
        p = xp.sign(p) * xp.maximum(abs(p) - rate * a["l1"], p.dtype.type(0))
    return p / (1 + rate * a["l2"])


def _proximal_gd(xp, a, g, rate, param):
    return (_proximal(xp, a, param - rate * g, rate),)


def _proximal_adagrad(xp, a, g, rate, param, moment):
    moment = moment + g * g
    return _proximal(xp, a, param - rate * g / xp.sqrt(moment), rate), moment


def _length(xp, x):
    return xp.sqrt((x.astype("float64") ** 2).sum())


def _lars(xp, a, g, rate, param, velocity):
    decay, of = a["lars_weight_decay"], g.dtype.type
    if decay > 0:
        own, slope = _length(xp, param), _length(xp, g)
        local = a["lars_coeff"] * own / xp.where(slope > 0, slope + decay * own + a["epsilon"], 1.0)
        rate = xp.where((own > 0) & (slope > 0), rate * local, rate).astype(g.dtype)
    velocity = a["mu"] * velocity + rate * (g + of(decay) * param)
    return param - velocity, velocity


def _lamb(call: Call) -> dict:
    a, xp = call.attrs, call.xp
    grad = call.array("Grad")
    slots = ("ParamOut", "Moment1Out", "Moment2Out")
    param, first, second = old = [call.old(slot) for slot in slots]
    same_dtype(grad, *old)
    ctype(param, REALS)
    of = grad.dtype.type
    rate, power1, power2 = (call.array(s).reshape(()) for s in ("LearningRate", "Beta1Pow", "Beta2Pow"))
    first[...] = of(a["beta1"]) * first + (1 - of(a["beta1"])) * grad
    second[...] = of(a["beta2"]) * second + (1 - of(a["beta2"])) * grad * grad
    step = (first / (1 - power1)) / (xp.sqrt(second / (1 - power2)) + of(a["epsilon"])) + of(a["weight_decay"]) * param
    own, size = _length(xp, param), _length(xp, step)
    trust = xp.where((own > 0) & (size > 0), own / xp.where(size > 0, size, 1.0), 1.0)
    param[...] = param - (rate * trust).astype(param.dtype) * step
    made = dict(zip(slots, old, strict=True))
    for slot, beta in (("Beta1PowOut", a["beta1"]), ("Beta2PowOut", a["beta2"])):
        if slot in call._old:
            power = made[slot] = call.old(slot)
            power *= power.dtype.type(beta)
    return made


def _average(call: Call) -> dict:
    """average_accumulates: sums of parameters over a window whose length grows with the number of updates."""
    a, xp, param = call.attrs, call.xp, call.array("param")
    one, two, three = (call.old(f"out_sum_{i}") for i in (1, 2, 3))
    names = ("out_num_accumulates", "out_old_num_accumulates", "out_num_updates")
    count, before, updates = (call.old(name) for name in names)
    updates += 1
    count += 1
    window = xp.minimum((updates.astype("float32") * a["average_window"]).astype("int64"), a["max_average_window"])
    full = ((count >= a["min_average_window"]) & (count >= window)).reshape((1,) * param.ndim)
    zero = param.dtype.type(0)
    one += param
    carry = (updates % 16384 == 0).reshape((1,) * param.ndim)
    two[...] = xp.where(carry, two + one, two)
    one[...] = xp.where(carry, zero, one)
    three[...] = xp.where(full, one + two, three)
    one[...] = xp.where(full, zero, one)
    two[...] = xp.where(full, zero, two)
    flat = full.reshape(count.shape)
    before[...] = xp.where(flat, count, before)
    count[...] = xp.where(flat, 0, count)
    sums = {f"out_sum_{i}": v for i, v in enumerate((one, two, three), 1)}
    return {**sums, **dict(zip(names, (count, before, updates), strict=True))}


def _dense_of(call: Call) -> dict:
    """get_tensor_from_selected_rows"""
    x = call.ins["X"]
    if not isinstance(x, Rows):
        raise Declined
    return {"Out": x.value.copy()}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "adagrad": _rule("ParamOut MomentOut", "LearningRate", _adagrad),
    "decayed_adagrad": _rule("ParamOut MomentOut", "LearningRate", _decayed_adagrad),
    "adadelta": _rule("ParamOut AvgSquaredGradOut AvgSquaredUpdateOut", "", _adadelta),
    "adamax": _rule("ParamOut MomentOut InfNormOut", "LearningRate Beta1Pow", _adamax),
    "rmsprop": _rmsprop_of,
    "ftrl": _rule("ParamOut SquaredAccumOut LinearAccumOut", "LearningRate", _ftrl),
    "proximal_gd": _rule("ParamOut", "LearningRate", _proximal_gd),
    "proximal_adagrad": _rule("ParamOut MomentOut", "LearningRate", _proximal_adagrad),
    "lars_momentum": _rule("ParamOut VelocityOut", "LearningRate", _lars),
    "lamb": _lamb,
    "average_accumulates": _average,
    "get_tensor_from_selected_rows": _dense_of,
}
