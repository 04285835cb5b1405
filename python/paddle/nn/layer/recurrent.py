"""Recurrent layers: RNN and BiRNN run cells over sequences; SimpleRNN, LSTM and GRU use one operator."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.structure import flatten
from paddle.nn.functional.common import dropout as drop
from paddle.nn.layer.container import LayerList
from paddle.nn.layer.layers import Layer
from paddle.nn.layer.rnn import GRUCell, LSTMCell, SimpleRNNCell
from paddle.nn.layer.rnn_loop import backwards, birnn, rnn, swap

__all__ = ["RNN", "BiRNN", "SimpleRNN", "LSTM", "GRU"]


_MODES = {LSTMCell: "LSTM", GRUCell: "GRU"}


def _plain(cell: Any) -> bool:
    """Whether the operator rnn is equivalent to calls of this cell."""
    known = type(cell) in (SimpleRNNCell, LSTMCell, GRUCell)
    return (
        known
        and not (cell._forward_pre_hooks or cell._forward_post_hooks)
        and cell.bias_ih is not None
        and cell.bias_hh is not None
        and "forward" not in vars(cell)
    )


def _by_operator(cell: Any, inputs: Any, states: Any, time_major: bool, is_reverse: bool) -> tuple[Any, Any]:
    """`rnn` of a known cell over whole sequences as one operator."""
    x = inputs if time_major else swap(inputs)
    x = backwards(x) if is_reverse else x
    lstm = isinstance(cell, LSTMCell)
    if states is None:
        states = cell.get_initial_states(batch_ref=inputs, dtype=inputs.dtype, batch_dim_idx=1 if time_major else 0)
    first = [_ops.unsqueeze2(s, axes=[0]) for s in (states if lstm else [states])]
    _, _, out, last = _ops.rnn(
        x,
        first,
        [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh],
        input_size=cell.input_size,
        hidden_size=cell.hidden_size,
        mode=_MODES.get(type(cell)) or f"RNN_{cell.activation.upper()}",
        is_test=not cell.training,
    )
    out = backwards(out) if is_reverse else out
    last = [_ops.squeeze2(s, axes=[0]) for s in last]
    return out if time_major else swap(out), tuple(last) if lstm else last[0]


class RNN(Layer):
    """Runs a cell over the steps of sequences.

    Args:
        cell: an RNNCellBase (or any Layer that maps inputs and states of a step to outputs and states).
        is_reverse: run from the last step to the first.
        time_major: inputs and outputs are [steps, batch, ...] instead of [batch, steps, ...].

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/layer/rnn/RNN_en.html

    Examples:
        >>> import paddle
        >>> y, h = paddle.nn.RNN(paddle.nn.SimpleRNNCell(4, 3))(paddle.ones([2, 5, 4]))
        >>> y.shape, h.shape
        ([2, 5, 3], [2, 3])
    """

    def __init__(self, cell: Any, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell = cell
        if not hasattr(self.cell, "call"):
            # the name by which cells of 1.x are called
            self.cell.call = self.cell.forward
        self.is_reverse = is_reverse
        self.time_major = time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """(outputs, final states); `initial_states` default to those of the cell. See `paddle.fluid.layers.rnn`."""
        if sequence_length is None and not kwargs and _plain(self.cell):
            return _by_operator(self.cell, inputs, initial_states, self.time_major, self.is_reverse)
        return rnn(self.cell, inputs, initial_states, sequence_length, self.time_major, self.is_reverse, **kwargs)


class BiRNN(Layer):
    """Runs one cell forwards and one backwards over the steps of sequences; the outputs are concatenated.

    Args:
        cell_fw, cell_bw: cells as for :class:`RNN`, of the same input size (ValueError otherwise).
        time_major: inputs and outputs are [steps, batch, ...] instead of [batch, steps, ...].

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/layer/rnn/BiRNN_en.html

    Examples:
        >>> import paddle
        >>> cells = paddle.nn.LSTMCell(4, 3), paddle.nn.LSTMCell(4, 3)
        >>> y, (forward, backward) = paddle.nn.BiRNN(*cells)(paddle.ones([2, 5, 4]))
        >>> y.shape, len(forward)
        ([2, 5, 6], 2)
    """

    def __init__(self, cell_fw: Any, cell_bw: Any, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw = cell_fw
        self.cell_bw = cell_bw
        if cell_fw.input_size != cell_bw.input_size:
            raise ValueError(
                f"BiRNN: both cells must have the same input size, got {cell_fw.input_size} and {cell_bw.input_size}"
            )
        for cell in (self.cell_fw, self.cell_bw):
            if not hasattr(cell, "call"):
                cell.call = cell.forward
        self.time_major = time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """(outputs, (forward states, backward states)); `initial_states` is a pair of the cells' states."""
        if isinstance(initial_states, (list, tuple)):
            assert len(initial_states) == 2, "BiRNN: initial_states must be a pair of states"
        if sequence_length is None and not kwargs and _plain(self.cell_fw) and _plain(self.cell_bw):
            first = (None, None) if initial_states is None else initial_states
            both = [
                _by_operator(cell, inputs, states, self.time_major, reverse)
                for cell, states, reverse in ((self.cell_fw, first[0], False), (self.cell_bw, first[1], True))
            ]
            return _ops.concat([both[0][0], both[1][0]], axis=-1), (both[0][1], both[1][1])
        return birnn(self.cell_fw, self.cell_bw, inputs, initial_states, sequence_length, self.time_major, **kwargs)


_ARGUMENTS = """

    Args:
        input_size, hidden_size: the last dimensions of inputs and states.
        num_layers: number of layers; each reads the outputs of the previous one.
        direction: "forward", or "bidirect" (the same as "bidirectional"): a second network runs backwards, and the
            outputs of both are concatenated.
        time_major: inputs and outputs are [steps, batch, ...] instead of [batch, steps, ...].
        dropout: the probability of dropping elements between two layers in training mode.{activation}
        weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr: ParamAttr (or a form it accepts) of each layer's
            weights and biases (default: uniform within 1 / sqrt(hidden_size)); False for a bias: none.
        name: ignored.

    Raises:
        ValueError: another direction{error}.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/layer/rnn/{name}_en.html

    Examples:
        >>> import paddle
        >>> y, {last} = paddle.nn.{name}(4, 3, 2)(paddle.ones([2, 5, 4]))
        >>> y.shape, h.shape
        ([2, 5, 3], [2, 2, 3])
"""


class _RNNBase(LayerList):
    """Multi-layer recurrent network: an RNN or BiRNN for each layer holds its parameters."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        **of_cell: Any,
    ) -> None:
        super().__init__()
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise ValueError(
                f"direction should be forward or bidirect (or bidirectional), received direction = {direction!s:.200}"
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.dropout = dropout
        self.num_directions = 1 if direction == "forward" else 2
        self.time_major = time_major
        self.num_layers = num_layers
        self.state_components = 2 if mode == "LSTM" else 1
        kind = {"LSTM": LSTMCell, "GRU": GRUCell}.get(mode, SimpleRNNCell)

        def cell(width: int) -> Any:
            return kind(
                width,
                hidden_size,
                weight_ih_attr=weight_ih_attr,
                weight_hh_attr=weight_hh_attr,
                bias_ih_attr=bias_ih_attr,
                bias_hh_attr=bias_hh_attr,
                **of_cell,
            )

        for i in range(num_layers):
            width = input_size if i == 0 else self.num_directions * hidden_size
            if self.num_directions == 1:
                self.append(RNN(cell(width), False, time_major))
            else:
                self.append(BiRNN(cell(width), cell(width), time_major))
        parts = num_layers * self.num_directions
        # As in Paddle, the operator requires both biases.
        self.could_use_cudnn = len(self.parameters()) == 4 * parts
        kinds = ["weight_ih", "weight_hh"]
        kinds += [k for k, attr in (("bias_ih", bias_ih_attr), ("bias_hh", bias_hh_attr)) if attr is not False]
        ends = [f"_l{i}{end}" for i in range(num_layers) for end in ("", "_reverse")[: self.num_directions]]
        names = [k + end for end in ends for k in kinds]
        for name, parameter in zip(names, self.parameters(), strict=True):
            setattr(self, name, parameter)
        self.flatten_parameters()

    def flatten_parameters(self) -> None:
        """Collects the parameters in the order of the operator's inputs."""
        if self.could_use_cudnn:
            own = self.parameters(include_sublayers=False)
            weights = [own[i + k] for i in range(0, len(own), 4) for k in (0, 1)]
            self._all_weights = weights + [own[i + k] for i in range(0, len(own), 4) for k in (2, 3)]

    def _by_operator(self, inputs: Any, initial_states: Any, sequence_length: Any) -> tuple[Any, Any]:
        states = [initial_states] if self.state_components == 1 else list(initial_states)
        _, _, out, last = _ops.rnn(
            inputs if self.time_major else swap(inputs),
            states,
            self._all_weights,
            sequence_length,
            dropout_prob=self.dropout,
            is_bidirec=self.num_directions == 2,
            input_size=self.input_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_layers,
            mode=self.mode,
            is_test=not self.training,
        )
        return out if self.time_major else swap(out), tuple(last) if len(last) > 1 else last[0]

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None) -> tuple[Any, Any]:
        """(outputs, final states).

        Args:
            inputs: Tensor [batch, steps, input_size].
            initial_states: Tensor [num_layers * num_directions, batch, hidden_size] (for an LSTM a pair of these: state
                and cell; default: zeros). The directions of a layer are adjacent.
            sequence_length: int32 or int64 Tensor [batch]: later steps are padding.

        Returns:
            outputs [batch, steps, num_directions * hidden_size], and the states after the last step, shaped like the
            initial ones.
        """
        if initial_states is None:
            zeros = [
                _ops.fill_constant_batch_size_like(
                    inputs,
                    shape=[self.num_layers * self.num_directions, -1, self.hidden_size],
                    dtype=inputs.dtype,
                    value=0.0,
                    input_dim_idx=1 if self.time_major else 0,
                    output_dim_idx=1,
                )
                for _ in range(self.state_components)
            ]
            initial_states = zeros[0] if self.state_components == 1 else tuple(zeros)
        if self.could_use_cudnn:
            return self._by_operator(inputs, initial_states, sequence_length)
        both, count = self.num_directions == 2, self.state_components
        states = _split_states(initial_states, both, count)
        last = []
        for i, layer in enumerate(self):
            if i > 0:
                inputs = drop(inputs, self.dropout, training=self.training, mode="upscale_in_train")
            inputs, final = layer(inputs, states[i], sequence_length)
            last.append(final)
        return inputs, _concat_states(last, count)

    def extra_repr(self) -> str:
        """The main arguments."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.time_major:
            text += f", time_major={self.time_major}"
        return text if self.dropout == 0 else f"{text}, dropout={self.dropout}"


def _split_states(states: Any, both: bool, components: int) -> list[Any]:
    """Splits the states of the network into those of each layer (pairs if bidirectional)."""
    parts = [_ops.unstack(s, num=s.shape[0]) for s in ([states] if components == 1 else states)]
    each = parts[0] if components == 1 else list(zip(*parts, strict=True))
    return list(zip(each[::2], each[1::2], strict=True)) if both else list(each)


def _concat_states(states: Any, components: int) -> Any:
    """The inverse of `_split_states`."""
    flat = flatten(states)
    whole = tuple(_ops.stack(flat[i::components], axis=0) for i in range(components))
    return whole if components > 1 else whole[0]


class SimpleRNN(_RNNBase):
    __doc__ = "h = act(W_ih x + b_ih + W_hh h + b_hh) over the steps of sequences, in layers." + _ARGUMENTS.format(
        activation='\n        activation: "tanh" or "relu".', error=" or activation", name="SimpleRNN", last="h"
    )

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        if activation not in ("tanh", "relu"):
            raise ValueError(f"Unknown activation '{activation!s:.200}'")
        sizes = (input_size, hidden_size, num_layers, direction, time_major, dropout)
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(f"RNN_{activation.upper()}", *sizes, *attrs, activation=activation)
        self.activation = activation


class _Gated(_RNNBase):
    """A network whose operator mode is its class name."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(self._mode, input_size, hidden_size, num_layers, direction, time_major, dropout, *attrs)

    _mode = ""


class LSTM(_Gated):
    __doc__ = "A multi-layer long short-term memory (LSTM) network." + _ARGUMENTS.format(
        activation="", error="", name="LSTM", last="(h, c)"
    )
    _mode = "LSTM"


class GRU(_Gated):
    __doc__ = "A multi-layer gated recurrent unit (GRU) network." + _ARGUMENTS.format(
        activation="", error="", name="GRU", last="h"
    )
    _mode = "GRU"
