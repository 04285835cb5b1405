"""Optimizers with accumulators, for dense gradients, by CuPy functions. Parameters and accumulators are updated in
place; learning rates stay on the device, so that the host does not wait."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call, Declined, ctype, same_dtype
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


def _momentum(xp, a, g, rate, param, velocity):
    if a["multi_precision"]:
        raise Declined
    g = g * a["rescale_grad"]
    if a["regularization_method"] == "l2_decay":
        g = g + a["regularization_coeff"] * param
    velocity = a["mu"] * velocity + g
    return param - rate * (g + a["mu"] * velocity if a["use_nesterov"] else velocity), velocity


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


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "momentum": _rule("ParamOut VelocityOut", "LearningRate", _momentum),
    "adagrad": _rule("ParamOut MomentOut", "LearningRate", _adagrad),
    "decayed_adagrad": _rule("ParamOut MomentOut", "LearningRate", _decayed_adagrad),
    "adadelta": _rule("ParamOut AvgSquaredGradOut AvgSquaredUpdateOut", "", _adadelta),
    "adamax": _rule("ParamOut MomentOut InfNormOut", "LearningRate Beta1Pow", _adamax),
    "rmsprop": _rule("ParamOut MomentOut MeanSquareOut", "LearningRate", _rmsprop),
}
