"""lstm, lstmp and their gradients over LoD sequences: one product and one cell kernel a step."""

from __future__ import annotations

from ..call import Call, ctype, same_dtype
from ..math import gemm, reduction
from ..units import REALS
from .batches import Batches, kinds, offsets, optional, step, step_grad
from .cells import ACTIVATIONS


class Lstm:
    """The operands of an operator; `sequences` is the slot whose LoD has the sequences."""

    def __init__(self, call: Call, sequences: str, weight: str = "Weight") -> None:
        a = call.attrs
        self.call, self.xp = call, call.xp
        self.weight, self.bias = call.array(weight), call.array("Bias")
        self.projection = call.array("ProjWeight") if "ProjWeight" in call.ins else None
        ctype(self.weight, REALS)
        self.state, self.n = self.weight.shape[0], self.weight.shape[1] // 4
        self.batches = Batches(call, offsets(call, sequences), a["is_reverse"])
        flat = self.bias.reshape(-1)
        self.sums, self.peep = flat[: 4 * self.n], flat[4 * self.n :] if a["use_peepholes"] else None
        self.h0 = self.batches.first(optional(call, "H0", self.weight))
        self.c0 = self.batches.first(optional(call, "C0", self.weight))
        names = ("gate_activation", "cell_activation", "candidate_activation")
        clip, proj_clip = (max(a.get(k, 0.0), 0.0) for k in ("cell_clip", "proj_clip"))
        gate, of_cell, candidate = (ACTIVATIONS[a[k]] for k in names)
        self.kinds = kinds(self.weight.dtype, gate, of_cell, candidate, clip=clip)
        # As in 2.0.2: a projection has the activation of the cell, unless its own is the identity.
        own = ACTIVATIONS[a.get("proj_activation", "")]
        proj_kind = ACTIVATIONS[a["cell_activation"]] if own else 0
        self.proj_kinds = kinds(self.weight.dtype, of_cell=proj_kind, clip=proj_clip)

    def forward(self, x, has_bias: bool = False) -> tuple:
        """Gates, cells, activations of cells, hidden states and states, in the order of steps; `x` are the products of
        the inputs, which may include the bias."""
        n = self.n
        gates = self.batches.gather(x)
        if not has_bias:
            gates += self.sums
        cells, acts, hidden = (self.call.empty((self.batches.total, n), x.dtype) for _ in range(3))
        states = hidden if self.projection is None else self.call.empty((self.batches.total, self.state), x.dtype)
        before_h, before_c = self.h0, self.c0
        for a, b in self.batches.steps:
            own = None if before_h is None else gemm.product(self.call, before_h[: b - a], self.weight)
            cell_before = None if before_c is None else before_c[: b - a]
            given = {"gates": gates[a:b], "own": own, "before": cell_before, "peep": self.peep}
            made = {"cells": cells[a:b], "acts": acts[a:b]}
            step(self.call, "Lstm", n, self.kinds, hidden[a:b], **given, **made)
            if self.projection is not None:
                gemm.product(self.call, hidden[a:b], self.projection, out=states[a:b])
                step(self.call, "Projection", self.state, self.proj_kinds, states[a:b])
            before_h, before_c = states[a:b], cells[a:b]
        return gates, cells, acts, hidden, states

    def backward(self, out, dout, cell, dcell, gates, acts, hidden) -> dict:
        """The gradients; `out`, `dout`, `cell` and `dcell` in the order of sequences."""
        xp, n, batches, call = self.xp, self.n, self.batches, self.call
        same_dtype(self.weight, out, dout, cell, gates, acts)
        out, dstates, cell = batches.gather(out), batches.gather(dout), batches.gather(cell)
        dcells = call.xp.zeros((batches.total, n), out.dtype) if dcell is None else batches.gather(dcell)
        hidden = out if hidden is None else hidden
        d = call.empty((batches.total, 4 * n), out.dtype)
        first_c = xp.zeros((batches.count, n), out.dtype)
        first_h = xp.zeros((batches.count, self.state), out.dtype)
        cells_before = batches.before(cell, self.c0)
        for s in reversed(range(len(batches.steps))):
            a, b = batches.steps[s]
            dh = dstates[a:b]
            if self.projection is not None:
                step_grad(call, "Projection", self.state, self.proj_kinds, dh, d=dh, acts=out[a:b])
                dh = gemm.product(call, dh, self.projection, ty=True)
            p = batches.steps[s - 1][0] if s else 0
            dc_before = dcells[p : p + b - a] if s else first_c[: b - a]
            saved = {"gates": gates[a:b], "before": cells_before[a:b], "peep": self.peep, "cells": cell[a:b]}
            grads = {"dcells": dcells[a:b], "carry": dc_before, "d": d[a:b]}
            step_grad(call, "Lstm", n, self.kinds, dh, acts=acts[a:b], **saved, **grads)
            to = dstates[p : p + b - a] if s else first_h[: b - a]
            gemm.product(call, d[a:b], self.weight, ty=True, beta=1.0, out=to)
        made = {
            "Input@GRAD": batches.scatter(d),
            "H0@GRAD": batches.unfirst(first_h),
            "C0@GRAD": batches.unfirst(first_c),
        }
        if call.wanted["Weight@GRAD"]:
            made["Weight@GRAD"] = gemm.product(call, batches.before(out, self.h0), d, tx=True)
        if call.wanted.get("ProjWeight@GRAD"):
            made["ProjWeight@GRAD"] = gemm.product(call, hidden, dstates, tx=True)
        if call.wanted["Bias@GRAD"]:
            parts = [reduction.reduce(call, d, [0], "Sum", 1)]
            if self.peep is not None:
                pairs = ((1, cells_before), (2, cells_before), (3, cell))
                parts += [(d[:, g * n : (g + 1) * n] * c).sum(axis=0) for g, c in pairs]
            made["Bias@GRAD"] = xp.concatenate(parts).reshape(self.bias.shape)
        return made


def _lstm(call: Call) -> dict:
    x, net = call.array("Input"), Lstm(call, "Input")
    same_dtype(x, net.weight)
    gates, cells, acts, _, states = net.forward(x)
    hidden, cell = net.batches.scatter(states), net.batches.scatter(cells)
    return {"Hidden": hidden, "Cell": cell, "BatchGate": gates, "BatchCellPreAct": acts}


def _lstmp(call: Call) -> dict:
    x, net = call.array("Input"), Lstm(call, "Input")
    same_dtype(x, net.weight)
    gates, cells, acts, hidden, states = net.forward(x)
    made = {"Projection": net.batches.scatter(states), "Cell": net.batches.scatter(cells)}
    return {**made, "BatchGate": gates, "BatchCellPreAct": acts, "BatchHidden": hidden}


def _grad(out: str):
    def launch_grad(call: Call) -> dict:
        net = Lstm(call, out)
        dcell = optional(call, "Cell@GRAD", net.weight)
        gates, acts = call.array("BatchGate"), call.array("BatchCellPreAct")
        hidden = call.array("BatchHidden") if "BatchHidden" in call.ins else None
        dout = call.array(f"{out}@GRAD")
        return net.backward(call.array(out), dout, call.array("Cell"), dcell, gates, acts, hidden)

    return launch_grad


LAUNCHERS = {"lstm": _lstm, "lstm_grad": _grad("Hidden"), "lstmp": _lstmp, "lstmp_grad": _grad("Projection")}
