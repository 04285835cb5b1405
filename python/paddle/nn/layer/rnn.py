"""Recurrent cells: one step of a recurrent network."""

from __future__ import annotations

import math
from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS, check_positive
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.dtypes import convert_np_dtype_to_dtype_
from paddle.nn.initializer import Uniform
from paddle.nn.layer.layers import Layer

__all__ = ["RNNCellBase", "SimpleRNNCell", "LSTMCell", "GRUCell"]


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(n, INTS) for n in value)


class RNNCellBase(Layer):
    """Base of recurrent cells; a subclass defines the shape of its states in `state_shape`."""

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: Any = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """Initial states.

        Args:
            batch_ref: Tensor (or a structure of them) whose dimension `batch_dim_idx` is the size of the batch.
            shape: shape of a state without the batch, or a structure of these (default: `state_shape`).
            dtype: element type (default: `state_dtype`, or the default type).
            init_value: the value of all elements.

        Returns:
            Tensors of shape [batch] + shape, in the structure of `shape`.
        """
        while isinstance(batch_ref, (list, tuple)):
            batch_ref = batch_ref[0]
        if dtype is None:
            try:
                dtype = self.state_dtype
            except NotImplementedError:
                dtype = get_default_dtype()

        def make(shape: Any, dtype: Any) -> Any:
            if not _is_shape(shape):
                types = dtype if isinstance(dtype, (list, tuple)) else [dtype] * len(shape)
                return type(shape)(make(s, t) for s, t in zip(shape, types, strict=True))
            sizes = list(shape) if len(shape) and shape[0] == -1 else [-1, *shape]
            return _ops.fill_constant_batch_size_like(
                batch_ref,
                shape=sizes,
                dtype=convert_np_dtype_to_dtype_(dtype),
                value=float(init_value),
                input_dim_idx=batch_dim_idx,
            )

        return make(self.state_shape if shape is None else shape, dtype)

    @property
    def state_shape(self) -> Any:
        """The shape of a state without the batch, or a structure of these; implemented by subclasses."""
        raise NotImplementedError("subclasses of RNNCellBase must define `state_shape`")

    @property
    def state_dtype(self) -> Any:
        """The element type of a state; if a subclass does not define it, the default type is used."""
        raise NotImplementedError("subclasses of RNNCellBase must define `state_dtype`")


class _Cell(RNNCellBase):
    """A cell with weights and biases for input and state, with `gates` rows for each hidden unit."""

    _gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_positive(type(self).__name__, hidden_size=hidden_size)
        limit = 1.0 / math.sqrt(hidden_size)
        rows = self._gates * hidden_size
        uniform = Uniform(-limit, limit)
        self.weight_ih = self.create_parameter((rows, input_size), weight_ih_attr, default_initializer=uniform)
        self.weight_hh = self.create_parameter((rows, hidden_size), weight_hh_attr, default_initializer=uniform)
        self.bias_ih = self.create_parameter((rows,), bias_ih_attr, is_bias=True, default_initializer=uniform)
        self.bias_hh = self.create_parameter((rows,), bias_hh_attr, is_bias=True, default_initializer=uniform)
        self.input_size = input_size
        self.hidden_size = hidden_size

    def _from_input(self, inputs: Any) -> Any:
        out = _ops.matmul_v2(inputs, self.weight_ih, trans_y=True)
        return out if self.bias_ih is None else out + self.bias_ih

    def _from_state(self, state: Any) -> Any:
        out = _ops.matmul_v2(state, self.weight_hh, trans_y=True)
        return out if self.bias_hh is None else out + self.bias_hh

    @property
    def state_shape(self) -> Any:
        """(hidden_size,)"""
        return (self.hidden_size,)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(_Cell):
    """h = act(W_ih x + b_ih + W_hh h + b_hh).

    Args:
        input_size, hidden_size: the last dimensions of input and state.
        activation: "tanh" or "relu" (ValueError otherwise).
        weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr: ParamAttr or a form it accepts (default: uniform
            within 1 / sqrt(hidden_size)); False for a bias: none.
        name: ignored.

    Examples:
        >>> import paddle
        >>> y, h = paddle.nn.SimpleRNNCell(4, 3)(paddle.ones([2, 4]))
        >>> y.shape
        [2, 3]
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        if activation not in ("tanh", "relu"):
            raise ValueError(f"SimpleRNNCell: activation must be tanh or relu, got {activation!s:.200}")
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self.activation = activation

    def forward(self, inputs: Any, states: Any = None) -> tuple[Any, Any]:
        """(output, state), both [batch, hidden_size]; `states` is zeros when None."""
        if states is None:
            states = self.get_initial_states(inputs)
        h = getattr(_ops, self.activation)(self._from_input(inputs) + self._from_state(states))
        return h, h

    def extra_repr(self) -> str:
        """The arguments."""
        text = super().extra_repr()
        return text if self.activation == "tanh" else f"{text}, activation={self.activation}"


class LSTMCell(_Cell):
    """One step of a long short-term memory; the order of the gates' rows is input, forget, cell, output.

    The arguments are those of :class:`SimpleRNNCell` without the activation.

    Examples:
        >>> import paddle
        >>> y, (h, c) = paddle.nn.LSTMCell(4, 3)(paddle.ones([2, 4]))
        >>> c.shape
        [2, 3]
    """

    _gates = 4

    def forward(self, inputs: Any, states: Any = None) -> tuple[Any, tuple[Any, Any]]:
        """(output, (state, cell)), all [batch, hidden_size]; `states` is zeros when None."""
        hidden, cell = self.get_initial_states(inputs) if states is None else states
        gates = self._from_input(inputs) + self._from_state(hidden)
        i, f, g, o = _ops.split(gates, num=4, axis=1)
        cell = _ops.sigmoid(f) * cell + _ops.sigmoid(i) * _ops.tanh(g)
        hidden = _ops.sigmoid(o) * _ops.tanh(cell)
        return hidden, (hidden, cell)

    @property
    def state_shape(self) -> Any:
        """((hidden_size,), (hidden_size,)): state and cell."""
        return ((self.hidden_size,), (self.hidden_size,))


class GRUCell(_Cell):
    """One step of a gated recurrent unit; the order of the gates' rows is reset, update, candidate.

    The arguments are those of :class:`SimpleRNNCell` without the activation.

    Examples:
        >>> import paddle
        >>> y, h = paddle.nn.GRUCell(4, 3)(paddle.ones([2, 4]))
        >>> h.shape
        [2, 3]
    """

    _gates = 3

    def forward(self, inputs: Any, states: Any = None) -> tuple[Any, Any]:
        """(output, state), both [batch, hidden_size]; `states` is zeros when None."""
        if states is None:
            states = self.get_initial_states(inputs)
        x_r, x_z, x_c = _ops.split(self._from_input(inputs), num=3, axis=1)
        h_r, h_z, h_c = _ops.split(self._from_state(states), num=3, axis=1)
        reset, update = _ops.sigmoid(x_r + h_r), _ops.sigmoid(x_z + h_z)
        candidate = _ops.tanh(x_c + reset * h_c)
        h = (states - candidate) * update + candidate
        return h, h
