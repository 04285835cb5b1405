"""gru and its gradient over LoD sequences: two products and two cell kernels a step."""

from __future__ import annotations

import numpy as np

from ..call import Call, ctype, same_dtype
from ..math import gemm, reduction
from ..units import REALS
from .batches import Batches, launch, offsets, optional
from .cells import ACTIVATIONS


class Gru:
    """A network over the sequences of `batches`; `h0` in the order of sequences."""

    def __init__(self, call: Call, weight, batches: Batches, h0=None) -> None:
        a = call.attrs
        self.call, self.weight, self.batches = call, weight, batches
        ctype(weight, REALS)
        self.n = n = weight.shape[0]
        flat = weight.reshape(-1)
        self.both, self.own = flat[: 2 * n * n].reshape(n, 2 * n), flat[2 * n * n :].reshape(n, n)
        self.h0 = batches.first(h0)
        self.gate, self.candidate = (np.int32(ACTIVATIONS[a[k]]) for k in ("gate_activation", "activation"))
        self.origin = np.int32(a["origin_mode"])

    def sizes(self, rows: int) -> tuple:
        return np.int64(self.n), np.int64(rows * self.n)

    def forward(self, x, bias) -> tuple:
        """Gates, reset states and states, in the order of steps; `x` are the products of the inputs."""
        call, n = self.call, self.n
        same_dtype(x, self.weight)
        gates = self.batches.gather(x)
        if bias is not None:
            gates += bias.reshape(-1)
        reset, hidden = (call.empty((self.batches.total, n), x.dtype) for _ in range(2))
        before = self.h0
        for a, b in self.batches.steps:
            rows, from_h = b - a, None if before is None else before[: b - a]
            own = None if from_h is None else gemm.product(call, from_h, self.both)
            sizes = self.sizes(rows)
            launch(call, "gru_gates", rows * n, x, gates[a:b], own, from_h, reset[a:b], *sizes, self.gate)
            own = None if from_h is None else gemm.product(call, reset[a:b], self.own)
            kinds = self.candidate, self.origin
            launch(call, "gru_state", rows * n, x, gates[a:b], own, from_h, hidden[a:b], *sizes, *kinds)
            before = hidden[a:b]
        return gates, reset, hidden


def _of(call: Call, sequences: str) -> Gru:
    weight = call.array("Weight")
    batches = Batches(call, offsets(call, sequences), call.attrs["is_reverse"])
    return Gru(call, weight, batches, optional(call, "H0", weight))


def _gru(call: Call) -> dict:
    net, x = _of(call, "Input"), call.array("Input")
    gates, reset, hidden = net.forward(x, optional(call, "Bias", x))
    made = {"BatchGate": gates, "BatchResetHiddenPrev": reset, "BatchHidden": hidden}
    return {**made, "Hidden": net.batches.scatter(hidden)}


def _gru_grad(call: Call) -> dict:
    net, xp = _of(call, "Hidden"), call.xp
    gates, reset, hidden = (call.array(s) for s in ("BatchGate", "BatchResetHiddenPrev", "BatchHidden"))
    same_dtype(net.weight, gates, reset, hidden, call.array("Hidden@GRAD"))
    batches, n = net.batches, net.n
    dhidden, before = batches.gather(call.array("Hidden@GRAD")), batches.before(hidden, net.h0)
    d = call.empty(gates.shape, gates.dtype)
    first = xp.zeros((batches.count, n), gates.dtype)
    for s in reversed(range(len(batches.steps))):
        a, b = batches.steps[s]
        rows, p = b - a, batches.steps[s - 1][0] if s else 0
        carry = dhidden[p : p + rows] if s else first[:rows]
        step, sizes = (gates[a:b], before[a:b]), net.sizes(rows)
        kinds = net.candidate, net.origin
        launch(call, "gru_state_grad", rows * n, gates, *step, dhidden[a:b], d[a:b], carry, *sizes, *kinds)
        dreset = gemm.product(call, d[a:b, 2 * n :], net.own, ty=True)
        launch(call, "gru_gates_grad", rows * n, gates, *step, dreset, d[a:b], carry, *sizes, net.gate)
        gemm.product(call, d[a:b, : 2 * n], net.both, ty=True, beta=1.0, out=carry)
    made = {"Input@GRAD": batches.scatter(d), "H0@GRAD": batches.unfirst(first)}
    if call.wanted["Weight@GRAD"]:
        made["Weight@GRAD"] = call.empty(net.weight.shape, gates.dtype)
        flat = made["Weight@GRAD"].reshape(-1)
        gemm.product(call, before, d[:, : 2 * n], tx=True, out=flat[: 2 * n * n].reshape(n, 2 * n))
        gemm.product(call, reset, d[:, 2 * n :], tx=True, out=flat[2 * n * n :].reshape(n, n))
    if call.wanted["Bias@GRAD"]:
        made["Bias@GRAD"] = reduction.reduce(call, d, [0], "Sum", 1).reshape(1, -1)
    return made


LAUNCHERS = {"gru": _gru, "gru_grad": _gru_grad}
