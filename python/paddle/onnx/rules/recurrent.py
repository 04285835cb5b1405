"""Recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence

from ..call import Call
from ..registry import rule
from .activation import activate

#: mode -> (ONNX node, order of the gates in ONNX by their place in Paddle, activations)
_MODES: dict[str, tuple[str, list[int], list[str]]] = {
    "LSTM": ("LSTM", [0, 3, 1, 2], []),  # Paddle: input, forget, cell, output; ONNX: input, output, forget, cell
    "GRU": ("GRU", [1, 0, 2], []),  # Paddle: reset, update, candidate; ONNX: update, reset, candidate
    "RNN_TANH": ("RNN", [0], ["Tanh"]),
    "RNN_RELU": ("RNN", [0], ["Relu"]),
}


def _gates(c: Call, weight: str, order: list[int], hidden: int) -> str:
    """Rows of a weight with the gates in ONNX's order."""
    if len(order) == 1:
        return weight
    parts = [c.slice(weight, [0], [i * hidden], [(i + 1) * hidden]) for i in order]
    return c.op("Concat", *parts, axis=0)


def _stacked(c: Call, values: list[str]) -> str:
    values = [c.unsqueeze(v, [0]) for v in values]
    return c.op("Concat", *values, axis=0) if len(values) > 1 else values[0]


def _network(c: Call, mode: str, states: Sequence[str], weights: Sequence[str]) -> tuple[str, list[str]]:
    """Output and last states of the layers of a network."""
    kind, order, activations = _MODES[mode]
    hidden, layers, directions = c.attr("hidden_size"), c.attr("num_layers"), 2 if c.attr("is_bidirec") else 1
    x, half = c.x("Input"), 2 * layers * directions
    lengths = c.cast(c.x("SequenceLength"), "int32") if c.has("SequenceLength") else ""
    attrs: dict = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
    if activations:
        attrs["activations"] = activations * directions
    if mode == "GRU":
        attrs["linear_before_reset"] = 1
    last: list[list[str]] = [[] for _ in states]
    for layer in range(layers):
        parts = range(layer * directions, (layer + 1) * directions)
        inner = [[_gates(c, weights[at + 2 * p + i], order, hidden) for p in parts] for at in (0, half) for i in (0, 1)]
        w, r = _stacked(c, inner[0]), _stacked(c, inner[1])
        bias = [c.op("Concat", a, b, axis=0) for a, b in zip(inner[2], inner[3], strict=True)]
        first = [c.slice(s, [0], [parts[0]], [parts[-1] + 1]) if layers > 1 else s for s in states]
        made = c.ops(kind, x, w, r, _stacked(c, bias), lengths, *first, outputs=1 + len(states), **attrs)
        # [steps, directions, batch, hidden] -> [steps, batch, directions * hidden]
        if directions == 1:
            x = c.squeeze(made[0], [1])
        else:
            x = c.reshape(c.transpose(made[0], [0, 2, 1, 3]), [0, 0, directions * hidden])
        for found, state in zip(last, made[1:], strict=True):
            found.append(state)
    return x, [c.op("Concat", *found, axis=0) if len(found) > 1 else found[0] for found in last]


def _refuse_training(c: Call) -> None:
    if c.attr("dropout_prob") and not c.attr("is_test"):
        c.fail("it has to be in test mode (is_test, Program.clone(for_test=True), Layer.eval())")


@rule("rnn")
def _rnn(c: Call) -> None:
    _refuse_training(c)
    out, last = _network(c, c.attr("mode"), c.xs("PreState"), c.xs("WeightList"))
    c.set("Out", out)
    c.set_all("State", last)


@rule("cudnn_lstm")
def _cudnn_lstm(c: Call) -> None:
    _refuse_training(c)
    weights = c.xs("WeightList")
    if not weights:
        weights = _unpacked(c)
    out, last = _network(c, "LSTM", [c.x("InitH"), c.x("InitC")], weights)
    c.set("Out", out)
    c.set("LastH", last[0])
    c.set("LastC", last[1])


def _unpacked(c: Call) -> list[str]:
    """The weights in one tensor: all products first, then all biases."""
    hidden, layers, directions = c.attr("hidden_size"), c.attr("num_layers"), 2 if c.attr("is_bidirec") else 1
    width, rows, at = c.shape("Input")[2], 4 * hidden, 0
    if width == -1:
        c.fail("the width of Input has to be known")
    shapes: list[list[int]] = []
    for part in range(layers * directions):
        shapes += [[rows, width if part < directions else directions * hidden], [rows, hidden]]
    shapes += [[rows]] * (2 * layers * directions)
    found = []
    for shape in shapes:
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        found.append(c.reshape(c.slice(c.x("W"), [0], [at], [at + size]), shape))
        at += size
    return found


_ACTIVATIONS = ["identity", "sigmoid", "tanh", "relu"]


@rule("lstm_unit")
def _lstm_unit(c: Call) -> None:
    width = c.shape("C_prev")[1]
    if width == -1:
        c.fail("the width of C_prev has to be known")
    i, f, o, g = c.split(c.x(), [width] * 4, 1)
    forget = c.op("Sigmoid", c.op("Add", f, c.like(c.attr("forget_bias"))))
    added = c.op("Mul", c.op("Sigmoid", i), c.op("Tanh", g))
    cell = c.op("Add", c.op("Mul", forget, c.x("C_prev")), added)
    c.set("H", c.op("Mul", c.op("Sigmoid", o), c.op("Tanh", cell)))
    c.set("C", cell)


@rule("gru_unit")
def _gru_unit(c: Call) -> None:
    width = c.shape("HiddenPrev")[1]
    if width == -1:
        c.fail("the width of HiddenPrev has to be known")
    gate, act = (_ACTIVATIONS[c.attr(name)] for name in ("gate_activation", "activation"))
    x, before, weight = c.x("Input"), c.x("HiddenPrev"), c.x("Weight")
    if c.has("Bias"):
        x = c.op("Add", x, c.reshape(c.x("Bias"), [1, -1]))
    for_gates, candidate = c.split(x, [2 * width, width], 1)
    # the weight is two matrices, one behind the other
    flat = c.flat(weight)
    w_gates = c.reshape(c.slice(flat, [0], [0], [2 * width * width]), [width, 2 * width])
    w_candidate = c.reshape(c.slice(flat, [0], [2 * width * width], [3 * width * width]), [width, width])
    gates = activate(c, gate, c.op("Add", for_gates, c.op("MatMul", before, w_gates)))
    update, reset = c.split(gates, [width, width], 1)
    kept = c.op("Mul", reset, before)
    candidate = activate(c, act, c.op("Add", candidate, c.op("MatMul", kept, w_candidate)))
    one = c.like(1.0, "HiddenPrev")
    first, second = (before, candidate) if c.attr("origin_mode") else (candidate, before)
    hidden = c.op("Add", c.op("Mul", update, first), c.op("Mul", c.op("Sub", one, update), second))
    c.set("Hidden", hidden)
    c.set("ResetHiddenPrev", kept)
    c.set("Gate", c.op("Concat", gates, candidate, axis=1))
