"""gru and its gradient over LoD sequences: two products and two cell kernels a step."""

from __future__ import annotations

from ..call import Call, ctype, same_dtype
from ..math import gemm, reduction
from ..units import REALS
from .batches import Batches, kinds, offsets, optional, step, step_grad
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
        gate, candidate = (ACTIVATIONS[a[k]] for k in ("gate_activation", "activation"))
        self.kinds = kinds(weight.dtype, gate=gate, candidate=candidate, origin=a["origin_mode"])

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
            from_h = None if before is None else before[: b - a]
            own = None if from_h is None else gemm.product(call, from_h, self.both)
            step(call, "GruGates", n, self.kinds, reset[a:b], gates=gates[a:b], own=own, before=from_h)
            own = None if from_h is None else gemm.product(call, reset[a:b], self.own)
            step(call, "GruState", n, self.kinds, hidden[a:b], gates=gates[a:b], own=own, before=from_h)
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
        saved = {"gates": gates[a:b], "before": before[a:b], "carry": carry, "d": d[a:b]}
        step_grad(call, "GruState", n, net.kinds, dhidden[a:b], **saved)
        dreset = gemm.product(call, d[a:b, 2 * n :], net.own, ty=True)
        step_grad(call, "GruGates", n, net.kinds, dreset, **saved)
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
