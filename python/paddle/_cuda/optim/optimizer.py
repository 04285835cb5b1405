"""sgd, momentum and adam: parameters and states are updated in place. Learning rates and beta powers are read on the
device, so that the host does not wait."""

from __future__ import annotations

import numpy as np

from ..call import Call, Declined, Rows, ctype, same_dtype
from ..rows import dense, subtract
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
template <typename T> __global__ void sgd(T* param, const T* grad, const T* rate, i64 n) {
    T step = -rate[0];
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        param[i] = fma(step, grad[i], param[i]);
}

template <typename T> __global__ void momentum(T* param, const T* grad, const T* rate, T* velocity, T mu, T rescale,
                                               T decay, int nesterov, i64 n) {
    T step = rate[0];
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        T g = grad[i] * rescale + decay * param[i], v = mu * velocity[i] + g;
        velocity[i] = v;
        param[i] = param[i] - step * (nesterov ? g + mu * v : v);
    }
}

template <typename T> __global__ void adam(T* param, const T* grad, const T* rate, T* first, T* second, const T* power1,
                                           const T* power2, T beta1, T beta2, T epsilon, i64 n) {
    T left = sqrt(T(1) - power2[0]);
    T step = rate[0] * (left / (T(1) - power1[0])), small = epsilon * left;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        T g = grad[i];
        T m = fma(beta1, first[i], (T(1) - beta1) * g);
        T v = fma(beta2, second[i], (T(1) - beta2) * g * g);
        first[i] = m;
        second[i] = v;
        param[i] = param[i] - step * (m / (sqrt(v) + small));
    }
}

template <typename T> __global__ void adam_powers(T* power1, T* power2, T beta1, T beta2) {
    power1[0] *= beta1;
    power2[0] *= beta2;
}
"""
_KERNELS = ("sgd", "momentum", "adam", "adam_powers")
UNIT = Unit("optimizer", SOURCE, sum((instances(kernel, REALS) for kernel in _KERNELS), ()))


def _one(call: Call, slot: str, like):
    array = call.array(slot)
    same_dtype(array, like)
    if array.size != 1:
        raise Declined
    return array


def _sgd(call: Call) -> dict:
    grad = call.ins["Grad"]
    call.array("Param")
    param = call.old("ParamOut")
    t, rate = ctype(param, REALS), _one(call, "LearningRate", param)
    if isinstance(grad, Rows):
        if grad.height != param.shape[0] or grad.value.shape[1:] != param.shape[1:]:
            raise Declined
        subtract(call, param, grad, rate)
    else:
        grad = call.array("Grad")
        same_dtype(param, grad)
        if param.size:
            call.launch(UNIT, f"sgd<{t}>", grid_of(param.size), 256, param, grad, rate, np.int64(param.size))
    return {"ParamOut": param}


def _momentum(call: Call) -> dict:
    a, grad = call.attrs, call.array("Grad")
    if a["multi_precision"]:
        raise Declined
    call.array("Param")
    param, velocity = call.old("ParamOut"), call.old("VelocityOut")
    t, rate = ctype(param, REALS), _one(call, "LearningRate", param)
    same_dtype(param, grad, velocity)
    if grad.size != param.size or velocity.size != param.size:
        raise Declined
    of = param.dtype.type
    decay = a["regularization_coeff"] if a["regularization_method"] == "l2_decay" else 0.0
    numbers = of(a["mu"]), of(a["rescale_grad"]), of(decay), np.int32(a["use_nesterov"]), np.int64(param.size)
    if param.size:
        call.launch(UNIT, f"momentum<{t}>", grid_of(param.size), 256, param, grad, rate, velocity, *numbers)
    return {"ParamOut": param, "VelocityOut": velocity}


def _adam(call: Call) -> dict:
    a, grad = call.attrs, call.ins["Grad"]
    if a["multi_precision"] or any(call.ins[slot] is not None for slot in ("Beta1Tensor", "Beta2Tensor", "Decay")):
        raise Declined
    call.array("Param")
    outs = {slot: call.old(slot) for slot in ("ParamOut", "Moment1Out", "Moment2Out", "Beta1PowOut", "Beta2PowOut")}
    param, first, second, power1, power2 = outs.values()
    same_dtype(param, first, second, power1, power2)
    t, rate = ctype(param, REALS), _one(call, "LearningRate", param)
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
    of = param.dtype.type
    beta1, beta2 = of(a["beta1"]), of(a["beta2"])
    if param.size:
        call.launch(
            UNIT,
            f"adam<{t}>",
            grid_of(param.size),
            256,
            param,
            grad,
            rate,
            first,
            second,
            power1,
            power2,
            beta1,
            beta2,
            of(a["epsilon"]),
            np.int64(param.size),
        )
    call.launch(UNIT, f"adam_powers<{t}>", 1, 1, power1, power2, beta1, beta2)
    return outs


LAUNCHERS = {"sgd": _sgd, "momentum": _momentum, "adam": _adam}
