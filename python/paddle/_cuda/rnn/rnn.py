"""rnn and cudnn_lstm (layers of simple RNNs, LSTMs or GRUs over padded sequences) and their gradients: the input
products of all steps are one, a step is one product and one cell kernel."""

from __future__ import annotations

import math

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..random import philox
from ..units import REALS
from .batches import launch

_MODES = {"RNN_TANH": (0, 1), "RNN_RELU": (1, 1), "LSTM": (2, 4), "GRU": (3, 3)}


class _Network:
    """The sizes of a network; `weights` has the input and state weights of each layer and direction, then biases."""

    def __init__(self, call: Call, mode: str, weights: list, states: list) -> None:
        a = call.attrs
        self.call, self.xp, self.x = call, call.xp, call.array("Input")
        self.mode, self.gates = _MODES[mode]
        ctype(self.x, REALS)
        same_dtype(self.x, *weights, *states)
        self.weights, self.states = weights, states
        self.layers, self.directions, self.n = a["num_layers"], 1 + bool(a["is_bidirec"]), a["hidden_size"]
        self.steps, self.batch = self.x.shape[:2]
        self.extra, self.width = self.mode >= 2, self.gates * self.n
        if self.x.size == 0:
            raise Declined
        lengths = call.ins.get("SequenceLength")
        self.lengths = None if lengths is None else call.array("SequenceLength").astype("int64")
        if lengths is not None:
            host = np.asarray(call.numbers("SequenceLength"))
            if ((host < 0) | (host > self.steps)).any():
                raise Declined  # the CPU kernel raises the error
        self.drop = 0.0 if a["is_test"] or self.layers == 1 else a["dropout_prob"]
        self.block = self.steps * self.batch * (self.width + self.extra * self.n)
        self.layer_out = self.steps * self.batch * self.directions * self.n
        self.reserve = self.layers * self.directions * self.block + (self.layers - 1) * self.layer_out

    def of(self, layer: int, direction: int) -> list:
        """Input and state weights and biases."""
        at, biases = 2 * (layer * self.directions + direction), 2 * self.layers * self.directions
        return [self.weights[i] for i in (at, at + 1, biases + at, biases + at + 1)]

    def saved(self, reserve, layer: int, direction: int) -> tuple:
        """The gates [steps, batch, ..] and the extra values of a layer and direction, as views of the reserve."""
        at = (layer * self.directions + direction) * self.block
        gates = self.steps * self.batch * self.width
        shape = (self.steps, self.batch)
        extra = reserve[at + gates : at + self.block].reshape(*shape, -1) if self.extra else None
        return reserve[at : at + gates].reshape(*shape, self.width), extra

    def out_of(self, reserve, layer: int):
        """The output of a layer but the last."""
        at = self.layers * self.directions * self.block + layer * self.layer_out
        return reserve[at : at + self.layer_out].reshape(self.steps, self.batch, -1)

    def dropped(self, x, mask):
        out = self.call.empty(x.shape, x.dtype)
        factor = x.dtype.type(0 if self.drop >= 1 else 1 / (1 - self.drop))
        launch(self.call, "masked", x.size, x, x, mask, factor, out, np.int64(x.size))
        return out

    def order(self, direction: int):
        return range(self.steps) if direction == 0 else range(self.steps - 1, -1, -1)

    def forward(self) -> tuple:
        """Out, the final states, the reserve and the mask of dropout."""
        call, n = self.call, self.n
        shape = (self.steps, self.batch, self.directions * n)
        reserve, final = call.empty((self.reserve,), self.x.dtype), [s.copy() for s in self.states]
        mask = call.empty((0,), "uint8")
        if self.drop:
            mask = (philox.uniforms(call, shape) >= self.drop).astype("uint8")
        below = self.x
        for layer in range(self.layers):
            out = call.empty(shape, self.x.dtype) if layer + 1 == self.layers else self.out_of(reserve, layer)
            given = self.dropped(below, mask) if layer and self.drop else below
            for direction in range(self.directions):
                self._layer(given, layer, direction, final, reserve, out)
            below = out
        return below, final, reserve, mask

    def _layer(self, x, layer: int, direction: int, final: list, reserve, out) -> None:
        xp, n = self.xp, self.n
        ih, hh, bias_ih, bias_hh = self.of(layer, direction)
        gates, extra = self.saved(reserve, layer, direction)
        gru = self.mode == 3
        gates[...] = xp.matmul(x.reshape(-1, x.shape[-1]), ih.T).reshape(gates.shape)
        # The reset gate multiplies the state's sum, bias included: that bias is not merged into the input's.
        gates += bias_ih if gru else bias_ih + bias_hh
        part = layer * self.directions + direction
        h, c = final[0][part], final[1][part] if self.mode == 2 else None
        total, at = self.batch * n, direction * n
        sizes = np.int64(n), np.int64(total)
        for t in self.order(direction):
            own = xp.matmul(h, hh.T)
            if gru:
                own += bias_hh
            step = gates[t], own, extra[t] if self.extra else None, h, c
            where = out[t].reshape(-1)[at:], np.int64(self.directions * n), self.lengths, np.int64(t)
            launch(self.call, "rnn_cell", total, gates, np.int32(self.mode), *step, *where, *sizes)

    def before(self, out, first, direction: int):
        """The state before each step; arbitrary for rows that have ended."""
        xp, n = self.xp, self.n
        own = out[:, :, direction * n : (direction + 1) * n]
        first = first.reshape(1, self.batch, n)
        if direction == 0:
            return xp.concatenate([first, own[:-1]])
        after = xp.concatenate([own[1:], first])
        if self.lengths is None:
            return after
        steps = xp.arange(1, self.steps + 1).reshape(-1, 1, 1)
        return xp.where(steps < self.lengths.reshape(1, -1, 1), after, first)

    def backward(self, out, dout, reserve, mask, last: list) -> tuple:
        """The gradients of the weights, of Input and of the states; `last` those of the final states (or None)."""
        xp = self.xp
        dstates = [
            xp.zeros(s.shape, s.dtype) if d is None else d.copy() for s, d in zip(self.states, last, strict=True)
        ]
        dweights: list = [None] * len(self.weights)
        for layer in range(self.layers - 1, -1, -1):
            given = self.x if layer == 0 else self.out_of(reserve, layer - 1)
            if layer and self.drop:
                given = self.dropped(given, mask)
            dx = None
            for direction in range(self.directions):
                found = self._layer_grad(given, layer, direction, out, dout, reserve, dstates, dweights)
                dx = found if dx is None else dx + found
            if layer:
                dout = self.dropped(dx, mask) if self.drop else dx
                out = self.out_of(reserve, layer - 1)
        return dweights, dx, dstates

    def _layer_grad(self, x, layer: int, direction: int, out, dout, reserve, dstates: list, dweights: list):
        xp, n, call = self.xp, self.n, self.call
        ih, hh, _, _ = self.of(layer, direction)
        gates, extra = self.saved(reserve, layer, direction)
        part, gru, lstm = layer * self.directions + direction, self.mode == 3, self.mode == 2
        before = xp.ascontiguousarray(self.before(out, self.states[0][part], direction))
        d = call.empty(gates.shape, gates.dtype)
        inner = call.empty(gates.shape, gates.dtype) if gru else d
        dh, dc = dstates[0][part], dstates[1][part] if lstm else None
        total, at, order = self.batch * n, direction * n, list(self.order(direction))
        dout = xp.ascontiguousarray(dout)
        for i in range(self.steps - 1, -1, -1):
            t, earlier = order[i], order[i - 1] if i else -1
            cells = (extra[earlier] if i else None, self.states[1][part]) if lstm else (None, None)
            saved = gates[t], extra[t] if self.extra else None, before[t], *cells
            given = dout[t].reshape(-1)[at:], np.int64(self.directions * n)
            made = dh, dc, d[t], inner[t] if gru else None
            where = self.lengths, np.int64(t), np.int64(earlier), np.int64(n), np.int64(total)
            launch(call, "rnn_cell_grad", total, gates, np.int32(self.mode), *saved, *given, *made, *where)
            dh += xp.matmul(inner[t], hh)
        flat, own = d.reshape(-1, self.width), inner.reshape(-1, self.width)
        biases = 2 * self.layers * self.directions + 2 * part
        dweights[2 * part] = xp.matmul(flat.T, x.reshape(-1, x.shape[-1]))
        dweights[2 * part + 1] = xp.matmul(own.T, before.reshape(-1, n))
        dweights[biases] = flat.sum(axis=0)
        dweights[biases + 1] = own.sum(axis=0) if gru else dweights[biases].copy()
        return xp.matmul(flat, ih).reshape(x.shape)


def _dense(call: Call, slot: str) -> list:
    found = call.ins.get(slot) or []
    if any(not hasattr(v, "reshape") for v in found):
        raise Declined
    return found


def _rnn(call: Call) -> dict:
    net = _Network(call, call.attrs["mode"], _dense(call, "WeightList"), _dense(call, "PreState"))
    out, final, reserve, mask = net.forward()
    return {"Out": out, "State": final, "Reserve": reserve, "DropoutState": mask}


def _rnn_grad(call: Call) -> dict:
    net = _Network(call, call.attrs["mode"], _dense(call, "WeightList"), _dense(call, "PreState"))
    mask = call.array("DropoutState") if net.drop else None
    last = call.ins.get("State@GRAD") or []
    last = [last[i] if i < len(last) else None for i in range(len(net.states))]
    saved = call.array("Out"), call.array("Out@GRAD"), call.array("Reserve")
    dweights, dx, dstates = net.backward(*saved, mask, last)
    return {"WeightList@GRAD": dweights, "Input@GRAD": dx, "PreState@GRAD": dstates}


def _cudnn(call: Call) -> _Network:
    """The network of cudnn_lstm, whose weights are a list or one after the other in W."""
    a, states = call.attrs, [call.array("InitH"), call.array("InitC")]
    weights = _dense(call, "WeightList")
    if not weights:
        flat, n, directions = call.array("W"), a["hidden_size"], 1 + bool(a["is_bidirec"])
        shapes: list[tuple[int, ...]] = []
        for layer in range(a["num_layers"]):
            width = call.array("Input").shape[2] if layer == 0 else directions * n
            shapes += [(4 * n, width), (4 * n, n)] * directions
        shapes += [(4 * n,)] * (2 * a["num_layers"] * directions)
        at = 0
        for shape in shapes:
            weights.append(flat[at : at + math.prod(shape)].reshape(shape))
            at += math.prod(shape)
    return _Network(call, "LSTM", weights, states)


def _cudnn_lstm(call: Call) -> dict:
    out, (h, c), reserve, mask = _cudnn(call).forward()
    return {"Out": out, "LastH": h, "LastC": c, "Reserve": reserve, "StateOut": mask}


def _cudnn_lstm_grad(call: Call) -> dict:
    net = _cudnn(call)
    last = [call.array("LastH@GRAD"), call.array("LastC@GRAD")]
    saved = call.array("Out"), call.array("Out@GRAD"), call.array("Reserve")
    dweights, dx, (dh, dc) = net.backward(*saved, call.array("StateOut") if net.drop else None, last)
    made = {"Input@GRAD": dx, "InitH@GRAD": dh, "InitC@GRAD": dc}
    if call.ins.get("WeightList"):
        made["WeightList@GRAD"] = dweights
    else:
        made["W@GRAD"] = call.xp.concatenate([w.reshape(-1) for w in dweights])
    return made


LAUNCHERS = {
    "rnn": _rnn,
    "rnn_grad": _rnn_grad,
    "cudnn_lstm": _cudnn_lstm,
    "cudnn_lstm_grad": _cudnn_lstm_grad,
}
