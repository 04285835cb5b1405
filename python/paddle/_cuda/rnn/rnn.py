"""rnn and cudnn_lstm (layers of simple RNNs, LSTMs or GRUs over padded sequences) and their gradients: the input
products of all steps are one, a step is one product and one cell kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import cudnn, sticky, strided
from ..call import Call, Declined, ctype, same_dtype
from ..conversion import convert
from ..math import gemm, reduction
from ..random import philox
from ..units import REALS
from .batches import launch

_MODES = {"RNN_TANH": (0, 1), "RNN_RELU": (1, 1), "LSTM": (2, 4), "GRU": (3, 3)}


class _Network:
    """The sizes of a network; `weights` has the input and state weights of each layer and direction, then biases."""

    def __init__(self, call: Call, mode: str, weights: list, states: list) -> None:
        a = call.attrs
        self.call, self.x = call, call.array("Input")
        call.tf32 = cudnn.tf32  # as cuDNN's recurrent networks
        self.mode, self.gates = _MODES[mode]
        ctype(self.x, REALS)
        same_dtype(self.x, *weights, *states)
        self.weights, self.states = weights, states
        self.layers, self.directions, self.n = a["num_layers"], 1 + bool(a["is_bidirec"]), a["hidden_size"]
        self.steps, self.batch = self.x.shape[:2]
        self.extra, self.width = self.mode >= 2, self.gates * self.n
        if self.x.size == 0:
            raise Declined
        self.lengths = None
        if call.ins.get("SequenceLength") is not None:
            given = call.array("SequenceLength")
            sticky.check_ids(call, given, 0, self.steps + 1)
            self.lengths = convert(call, given, "int64")
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

    def drawn(self, x, mask):
        """`x` without the elements that are dropped, which `mask` gets."""
        factor = 0.0 if self.drop >= 1 else 1 / (1 - self.drop)
        return philox.masked(self.call, x, mask, factor, philox.seed_of(self.call), self.drop)

    def dropped(self, x, mask):
        return philox.masked(self.call, x, mask, np.inf if self.drop >= 1 else 1 - self.drop)

    def order(self, direction: int):
        return range(self.steps) if direction == 0 else range(self.steps - 1, -1, -1)

    def forward(self) -> tuple:
        """Out, the final states, the reserve and the mask of dropout."""
        call, n = self.call, self.n
        shape = (self.steps, self.batch, self.directions * n)
        reserve = call.empty((self.reserve,), self.x.dtype)
        final = [call.empty(s.shape, s.dtype) for s in self.states]
        mask = call.empty(shape if self.drop else (0,), "uint8")
        below = self.x
        for layer in range(self.layers):
            out = call.empty(shape, self.x.dtype) if layer + 1 == self.layers else self.out_of(reserve, layer)
            given = below
            if layer and self.drop:  # one mask for all layers
                given = self.drawn(below, mask) if layer == 1 else self.dropped(below, mask)
            for direction in range(self.directions):
                self._layer(given, layer, direction, final, reserve, out)
            below = out
        return below, final, reserve, mask

    def _layer(self, x, layer: int, direction: int, final: list, reserve, out) -> None:
        call, n = self.call, self.n
        ih, hh, *biases = self.of(layer, direction)
        gates, extra = self.saved(reserve, layer, direction)
        gru, part = self.mode == 3, layer * self.directions + direction
        gemm.product(call, x.reshape(-1, x.shape[-1]), ih, ty=True, out=gates.reshape(-1, self.width))
        # The reset gate multiplies the state's sum, bias included: that sum is not merged into the input's.
        own = call.empty((self.batch, self.width), x.dtype) if gru else None
        before, after = [s[part] for s in self.states], [s[part] for s in final]
        total, at = self.batch * n, direction * n
        sizes = np.int64(n), np.int64(total)
        for t in self.order(direction):
            gemm.product(call, before[0], hh, ty=True, beta=0.0 if gru else 1.0, out=own if gru else gates[t])
            sums = gates[t], own, *biases, extra[t] if self.extra else None
            states = (*_pair(before), *_pair(after))
            where = out[t].reshape(-1)[at:], np.int64(self.directions * n), self.lengths, np.int64(t)
            launch(call, "rnn_cell", total, gates, np.int32(self.mode), *sums, *states, *where, *sizes)
            before = after

    def before(self, out, first, direction: int):
        """The state before each step; arbitrary for rows that have ended."""
        n, at = self.n, direction * self.n
        to = self.call.empty((self.steps, self.batch, n), out.dtype)
        sizes = map(np.int64, (self.steps, self.batch, n, to.size))
        given = out.reshape(-1)[at:], first, np.int64(self.directions * n), self.lengths, to
        launch(self.call, "rnn_before", to.size, out, *given, *sizes, np.int32(direction))
        return to

    def backward(self, out, dout, reserve, mask, last: list, dweights: list) -> tuple:
        """The gradients of Input and of the states; those of the weights are written to `dweights`. `last` are those of
        the final states, None for zeros."""
        dstates = [self.call.empty(s.shape, s.dtype) for s in self.states]
        for layer in range(self.layers - 1, -1, -1):
            given = self.x if layer == 0 else self.out_of(reserve, layer - 1)
            if layer and self.drop:
                given = self.dropped(given, mask)
            dx = self.call.empty(given.shape, given.dtype)
            for direction in range(self.directions):
                self._layer_grad((given, dx), layer, direction, (out, dout, reserve), (last, dstates), dweights)
            if layer:
                dout = self.dropped(dx, mask) if self.drop else dx
                out = self.out_of(reserve, layer - 1)
        return dx, dstates

    def _layer_grad(
        self, xs: tuple, layer: int, direction: int, saved: tuple, states: tuple[list, list], dweights: list
    ) -> None:
        call, n, (x, dx), (out, dout, reserve), (last, dstates) = self.call, self.n, xs, saved, states
        ih, hh, _, _ = self.of(layer, direction)
        gates, extra = self.saved(reserve, layer, direction)
        part, gru, lstm = layer * self.directions + direction, self.mode == 3, self.mode == 2
        before = self.before(out, self.states[0][part], direction)
        d = call.empty(gates.shape, gates.dtype)
        inner = call.empty(gates.shape, gates.dtype) if gru else d
        after, made = [None if s is None else s[part] for s in last], [s[part] for s in dstates]
        total, at, order = self.batch * n, direction * n, list(self.order(direction))
        for i in range(self.steps - 1, -1, -1):
            t, earlier = order[i], order[i - 1] if i else -1
            cells = (extra[earlier] if i else None, self.states[1][part]) if lstm else (None, None)
            kept = gates[t], extra[t] if self.extra else None, before[t], *cells
            given = dout[t].reshape(-1)[at:], np.int64(self.directions * n)
            grads = *_pair(after), *_pair(made), d[t], inner[t] if gru else None
            where = self.lengths, np.int64(t), np.int64(earlier), np.int64(n), np.int64(total)
            launch(call, "rnn_cell_grad", total, gates, np.int32(self.mode), *kept, *given, *grads, *where)
            gemm.product(call, inner[t], hh, beta=1.0, out=made[0])
            after = made
        flat, own = d.reshape(-1, self.width), inner.reshape(-1, self.width)
        gemm.product(call, flat, x.reshape(-1, x.shape[-1]), tx=True, out=dweights[2 * part])
        gemm.product(call, own, before.reshape(-1, n), tx=True, out=dweights[2 * part + 1])
        gemm.product(call, flat, ih, beta=float(direction), out=dx.reshape(flat.shape[0], -1))
        biases = 2 * self.layers * self.directions + 2 * part
        of_input, of_state = dweights[biases : biases + 2]
        if gru:
            self._sums(own, of_state)
            self._sums(flat, of_input)
        else:
            self._sums(flat, of_input, of_state)

    def _sums(self, x, to, second=None) -> None:
        """The sums of columns, to one place or to two."""
        found = reduction.reduce(self.call, x, [0], "Sum", 1)
        for place in (to,) if second is None else (to, second):
            strided.move(self.call, found, place, found.shape, (1,), (1,))


def _pair(states: list) -> tuple:
    """The hidden state and the cells, None for those of other networks than LSTMs."""
    return states[0], states[1] if len(states) > 1 else None


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
    dweights = [call.empty(w.shape, w.dtype) for w in net.weights]
    dx, dstates = net.backward(*saved, mask, last, dweights)
    return {"WeightList@GRAD": dweights, "Input@GRAD": dx, "PreState@GRAD": dstates}


def _unpacked(flat: Any, call: Call) -> list:
    """The weights of cudnn_lstm that are one after the other in one array, as views."""
    a, n, directions, found = call.attrs, call.attrs["hidden_size"], 1 + bool(call.attrs["is_bidirec"]), []
    shapes: list[tuple[int, ...]] = []
    for layer in range(a["num_layers"]):
        width = call.array("Input").shape[2] if layer == 0 else directions * n
        shapes += [(4 * n, width), (4 * n, n)] * directions
    shapes += [(4 * n,)] * (2 * a["num_layers"] * directions)
    at = 0
    for shape in shapes:
        found.append(flat[at : at + math.prod(shape)].reshape(shape))
        at += math.prod(shape)
    return found


def _cudnn(call: Call) -> _Network:
    """The network of cudnn_lstm, whose weights are a list or one after the other in W."""
    weights = _dense(call, "WeightList") or _unpacked(call.array("W"), call)
    return _Network(call, "LSTM", weights, [call.array("InitH"), call.array("InitC")])


def _cudnn_lstm(call: Call) -> dict:
    out, (h, c), reserve, mask = _cudnn(call).forward()
    return {"Out": out, "LastH": h, "LastC": c, "Reserve": reserve, "StateOut": mask}


def _cudnn_lstm_grad(call: Call) -> dict:
    net = _cudnn(call)
    last = [call.array("LastH@GRAD"), call.array("LastC@GRAD")]
    saved = call.array("Out"), call.array("Out@GRAD"), call.array("Reserve")
    made: dict[str, Any] = {}
    if call.ins.get("WeightList"):
        dweights = made["WeightList@GRAD"] = [call.empty(w.shape, w.dtype) for w in net.weights]
    else:
        flat = made["W@GRAD"] = call.empty(call.array("W").shape, net.x.dtype)
        dweights = _unpacked(flat, call)
    dx, (dh, dc) = net.backward(*saved, call.array("StateOut") if net.drop else None, last, dweights)
    return {**made, "Input@GRAD": dx, "InitH@GRAD": dh, "InitC@GRAD": dc}


LAUNCHERS = {
    "rnn": _rnn,
    "rnn_grad": _rnn_grad,
    "cudnn_lstm": _cudnn_lstm,
    "cudnn_lstm_grad": _cudnn_lstm_grad,
}
