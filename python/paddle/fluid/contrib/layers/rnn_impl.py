"""Multi-layer recurrent networks of BasicGRUUnit and BasicLSTMUnit."""

from __future__ import annotations

from paddle import _ops
from paddle.fluid.layers.rnn.units import BasicGRUUnit, BasicLSTMUnit, named_part
from paddle.nn.functional import dropout
from paddle.nn.layer.rnn_loop import chosen, rnn, sequence_masks, swap

__all__ = ["BasicGRUUnit", "BasicLSTMUnit", "basic_gru", "basic_lstm"]


class _Stack:
    """Stacked units as one cell; its input is a step, with the step's mask if sequences have lengths."""

    def __init__(self, units, dropout_prob, masked):
        self.units = units
        self.dropout_prob = dropout_prob
        self.masked = masked

    def __call__(self, inputs, states):
        x, mask = inputs if self.masked else (inputs, None)
        after = []
        for unit, state in zip(self.units, states, strict=True):
            parts = list(state) if isinstance(state, (list, tuple)) else [state]
            new = unit(x, *parts)
            new = list(new) if isinstance(new, tuple) else [new]
            if mask is not None:
                new = [chosen(old, n, mask) for old, n in zip(parts, new, strict=True)]
            after.append(new if isinstance(state, (list, tuple)) else new[0])
            x = new[0]
            if self.dropout_prob:
                x = dropout(x, self.dropout_prob, mode="downscale_in_infer")
        return x, after


def _initial_state(init, layer, direction, directions, x, width, dtype):
    """The initial state of one layer and direction: its slice of [layers * directions, batch, width], or zeros."""
    if init is not None:
        at = layer * directions + direction
        return _ops.squeeze2(_ops.slice(init, axes=[0], starts=[at], ends=[at + 1]), axes=[0])
    return _ops.fill_constant_batch_size_like(x, shape=[-1, width], dtype=dtype, value=0.0, input_dim_idx=1)


def _layers(
    unit,
    states,
    input,
    hidden_size,
    num_layers,
    sequence_length,
    dropout_prob,
    both,
    batch_first,  # noqa: A002
    param_attr,
    bias_attr,
    dtype,
    name,
    more,
):
    """(outputs, last states by kind of state); `unit` creates a unit from a name and ParamAttrs."""
    x = swap(input) if batch_first else input
    directions = 2 if both else 1
    # States may also have the shape [layers * directions * batch, width].
    shape = [num_layers * directions, -1, hidden_size]
    states = [s if s is None or len(s.shape) == 3 else _ops.reshape2(s, shape=shape) for s in states]
    mask = None
    if sequence_length is not None:
        mask = sequence_masks(sequence_length, x, x.dtype)
    outs, lasts = [], []
    for direction in range(directions):
        way, mark = ("", "fw") if direction == 0 else ("_reverse", "bw")
        units = [
            unit(
                f"{name}{way}_layers_{i}",
                hidden_size,
                named_part(param_attr, f"_{mark}_w_{i}"),
                named_part(bias_attr, f"_{mark}_b_{i}"),
                *more,
                dtype,
            )
            for i in range(num_layers)
        ]
        first = [
            [_initial_state(s, i, direction, directions, x, hidden_size, x.dtype) for s in states]
            for i in range(num_layers)
        ]
        first = [s if len(s) > 1 else s[0] for s in first]
        inputs = x if mask is None else [x, mask]
        cell = _Stack(units, dropout_prob, mask is not None)
        out, last = rnn(cell, inputs, first, None, True, direction == 1)
        outs.append(out)
        lasts.append([s if isinstance(s, (list, tuple)) else [s] for s in last])
    out = outs[0] if directions == 1 else _ops.concat(outs, axis=2)
    last = [
        _ops.stack([lasts[d][i][k] for i in range(num_layers) for d in range(directions)], axis=0)
        for k in range(len(states))
    ]
    return (swap(out) if batch_first else out), last


def basic_gru(  # noqa: D417
    input,  # noqa: A002
    init_hidden,
    hidden_size,
    num_layers=1,
    sequence_length=None,
    dropout_prob=0.0,
    bidirectional=False,
    batch_first=True,
    param_attr=None,
    bias_attr=None,
    gate_activation=None,
    activation=None,
    dtype="float32",
    name="basic_gru",
):
    """Stacked BasicGRUUnits over padded sequences.

    Args:
        input (Variable): [batch, steps, inputs].
        init_hidden (Variable): [num_layers * directions, batch, hidden_size]; zeros when None.
        hidden_size, num_layers (int): width of the states, number of layers.
        sequence_length (Variable): int32 or int64 [batch]: after its end a sequence keeps its state.
        dropout_prob (float): dropout probability of the output of each layer.
        bidirectional (bool): a second network runs backwards; the outputs of both are concatenated.
        batch_first (bool): False: the input is [steps, batch, inputs].
        param_attr, bias_attr, gate_activation, activation, dtype, name: as of BasicGRUUnit.

    Returns:
        (outputs [batch, steps, directions * hidden_size], last states [num_layers * directions, batch, hidden_size]).
    """
    out, last = _layers(
        BasicGRUUnit,
        [init_hidden],
        input,
        hidden_size,
        num_layers,
        sequence_length,
        dropout_prob,
        bidirectional,
        batch_first,
        param_attr,
        bias_attr,
        dtype,
        name,
        (gate_activation, activation),
    )
    return out, last[0]


def basic_lstm(  # noqa: D417
    input,  # noqa: A002
    init_hidden,
    init_cell,
    hidden_size,
    num_layers=1,
    sequence_length=None,
    dropout_prob=0.0,
    bidirectional=False,
    batch_first=True,
    param_attr=None,
    bias_attr=None,
    gate_activation=None,
    activation=None,
    forget_bias=1.0,
    dtype="float32",
    name="basic_lstm",
):
    """Stacked BasicLSTMUnits over padded sequences; arguments as of :func:`basic_gru`.

    Args:
        init_cell (Variable): the initial cells, shaped as `init_hidden`.
        forget_bias (float): bias of the forget gates.

    Returns:
        (outputs, last states, last cells).
    """
    out, last = _layers(
        BasicLSTMUnit,
        [init_hidden, init_cell],
        input,
        hidden_size,
        num_layers,
        sequence_length,
        dropout_prob,
        bidirectional,
        batch_first,
        param_attr,
        bias_attr,
        dtype,
        name,
        (gate_activation, activation, forget_bias),
    )
    return out, *last
