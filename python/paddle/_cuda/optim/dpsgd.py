"""dpsgd: gradient descent with the gradient's norm clipped and noise added, the same number for all elements."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import paddle._core as _core

from ..call import Call, Declined, same_dtype

_MODULUS = (1 << 31) - 1
_F32 = np.float32


class _Minstd:
    """`std::minstd_rand`, the generator of Paddle's noise, as libstdc++ draws numbers from it."""

    def __init__(self, seed: int) -> None:
        self.state = max(seed % _MODULUS, 1)

    def _next(self) -> int:
        self.state = self.state * 48271 % _MODULUS
        return self.state - 1

    def _uniform(self, double: bool) -> np.float32:
        span = float(_MODULUS - 1)
        if double:
            low = float(self._next())
            return _F32((low + self._next() * span) / (span * span))
        return min(_F32(self._next()) / _F32(span), _F32(1) - np.finfo(_F32).eps / _F32(2))

    def normal(self, double: bool) -> np.float32:
        """A number of the standard normal distribution, by Marsaglia's polar method."""
        while True:
            a, b = (_F32(2) * self._uniform(double) - _F32(1) for _ in range(2))
            s = a * a + b * b
            if s < 1 and s != 0:
                return _F32(a * np.sqrt(_F32(-2) * np.log(s) / s))


def _dpsgd(call: Call) -> dict:
    grad, rate, a, xp = call.array("Grad"), call.array("LearningRate"), call.attrs, call.xp
    param = call.old("ParamOut")
    same_dtype(param, grad)
    if param.dtype.kind != "f" or rate.size != 1:
        raise Declined
    of, clip = param.dtype.type, float(_F32(a["clip"]))
    size = math.prod(grad.shape) and xp.sqrt((grad.astype("float64") ** 2).sum())
    scale = xp.maximum(xp.asarray(size) / clip, 1.0).astype(param.dtype)
    if not a["seed"]:
        call.unrecorded()
    seed = a["seed"] if a["seed"] else int(_core.random_u64())
    noise = of(_Minstd(seed & 0xFFFFFFFF).normal(of is np.float64) * _F32(a["sigma"])) / of(a["batch_size"])
    param[...] = param - rate.reshape(()).astype(param.dtype) * (grad / scale + noise)
    return {"ParamOut": param}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"dpsgd": _dpsgd}
