"""sgd, momentum and adam: parameters and states are updated in place. Learning rates and beta powers are read on the
device, so that the host does not wait."""

from __future__ import annotations

import numpy as np

from ..call import Call, Declined, Rows, ctype, same_dtype
from ..rows import dense, subtract
from ..units import REALS, grid_of
from .kernels import RULES, UNIT, numbers


def _rate(call: Call, param):
    rate = call.array("LearningRate")
    ctype(param, REALS)
    same_dtype(rate, param)
    if rate.size != 1:
        raise Declined
    return rate


def _update(call: Call, rate, param, grad, *states) -> None:
    """The kernel of an operator; `states` are up to two, and the powers of adam."""
    if param.size:
        operands = [param, grad, rate, *states, *(np.uint64(0),) * 4][:7]
        by = numbers(call.op, call.attrs, param.dtype.type)
        kernel = f"update<{ctype(param, REALS)}, {RULES[call.op]}>"
        call.launch(UNIT, kernel, grid_of(param.size), 256, *operands, *by, np.int64(param.size))


def _sgd(call: Call) -> dict:
    grad = call.ins["Grad"]
    call.array("Param")
    param = call.old("ParamOut")
    rate = _rate(call, param)
    if isinstance(grad, Rows):
        if grad.height != param.shape[0] or grad.value.shape[1:] != param.shape[1:]:
            raise Declined
        subtract(call, param, grad, rate)
    else:
        grad = call.array("Grad")
        same_dtype(param, grad)
        _update(call, rate, param, grad)
    return {"ParamOut": param}


def _momentum(call: Call) -> dict:
    a, grad = call.attrs, call.array("Grad")
    if a["multi_precision"]:
        raise Declined
    call.array("Param")
    param, velocity = call.old("ParamOut"), call.old("VelocityOut")
    rate = _rate(call, param)
    same_dtype(param, grad, velocity)
    if grad.size != param.size or velocity.size != param.size:
        raise Declined
    _update(call, rate, param, grad, velocity)
    return {"ParamOut": param, "VelocityOut": velocity}


def _adam(call: Call) -> dict:
    a, grad = call.attrs, call.ins["Grad"]
    if a["multi_precision"] or any(call.ins[slot] is not None for slot in ("Beta1Tensor", "Beta2Tensor", "Decay")):
        raise Declined
    call.array("Param")
    outs = {slot: call.old(slot) for slot in ("ParamOut", "Moment1Out", "Moment2Out", "Beta1PowOut", "Beta2PowOut")}
    param, first, second, power1, power2 = outs.values()
    same_dtype(param, first, second, power1, power2)
    rate = _rate(call, param)
    if isinstance(grad, Rows):
        if not grad.rows.size:
            return outs
        # Lazy updates skip the other rows; they run on the CPU.
        if a["lazy_mode"] or grad.height != param.shape[0] or grad.value.shape[1:] != param.shape[1:]:
            raise Declined
        grad = dense(call, grad)
    else:
        grad = call.array("Grad")
    same_dtype(param, grad)
    if power1.size != 1 or power2.size != 1 or first.size != param.size or second.size != param.size:
        raise Declined
    _update(call, rate, param, grad, first, second, power1, power2)
    betas = numbers(call.op, a, param.dtype.type)[:2]
    call.launch(UNIT, f"powers<{ctype(param, REALS)}>", 1, 1, np.uint64(0), power1, power2, np.int64(1), *betas)
    return outs


LAUNCHERS = {"sgd": _sgd, "momentum": _momentum, "adam": _adam}
