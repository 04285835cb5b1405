"""BasicGRUUnit and BasicLSTMUnit: single steps as Layers."""

from __future__ import annotations

import copy

from paddle import _ops
from paddle._basics import unique_name
from paddle.nn.layer.layers import Layer
from paddle.nn.layer_object_helper import LayerObjectHelper

__all__ = ["BasicGRUUnit", "BasicLSTMUnit"]


def named_part(attr, part):
    """The ParamAttr of one of several parameters: an explicit name gets a suffix."""
    if attr is None or attr is False or attr.name is None:
        return attr
    own = copy.deepcopy(attr)
    own.name += part
    return own


class _Unit(Layer):
    """Base of the units: arguments, and creation of parameters."""

    def __init__(
        self,
        name_scope,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        dtype="float32",
    ):
        super().__init__(name_scope, dtype)
        self._full_name = unique_name.generate(f"{name_scope}/{type(self).__name__}")
        self._helper = LayerObjectHelper(self._full_name)
        self._name = name_scope
        self._hidden_size = hidden_size
        self._param_attr = param_attr
        self._bias_attr = bias_attr
        self._gate_activation = gate_activation or _ops.sigmoid
        self._activation = activation or _ops.tanh
        self._dtype = dtype

    def _make(self, inputs, gates, part=""):
        """Weight and bias of `gates` gates over inputs and states."""
        rows, columns = inputs + self._hidden_size, gates * self._hidden_size
        weight = self.create_parameter([rows, columns], named_part(self._param_attr, part), self._dtype)
        return weight, lambda: self.create_parameter(
            [columns], named_part(self._bias_attr, part), self._dtype, is_bias=True
        )


class BasicGRUUnit(_Unit):
    """One step of a gated recurrent unit; the parameters are created at the first call.

    Args:
        name_scope (str): prefix of the parameters' names.
        hidden_size (int): width of the state.
        param_attr, bias_attr (ParamAttr): of weights and biases; an explicit name gets a suffix per parameter.
        gate_activation, activation (callable): of the gates (default: sigmoid) and the candidate (default: tanh).
        dtype (str): "float32" or "float64".
    """

    def _build_once(self, input, pre_hidden):  # noqa: A002
        inputs = input.shape[-1]
        assert inputs > 0, "BasicGRUUnit: the width of the input must be known"
        self._gate_weight, gate_bias = self._make(inputs, 2, "_gate")
        self._candidate_weight, candidate_bias = self._make(inputs, 1, "_candidate")
        self._gate_bias, self._candidate_bias = gate_bias(), candidate_bias()

    def forward(self, input, pre_hidden):  # noqa: A002
        """The state after the step, [batch, hidden_size]."""
        gates = _ops.matmul(_ops.concat([input, pre_hidden], axis=1), self._gate_weight)
        reset, update = _ops.split(self._gate_activation(gates + self._gate_bias), num=2, axis=1)
        candidate = _ops.matmul(_ops.concat([input, reset * pre_hidden], axis=1), self._candidate_weight)
        candidate = self._activation(candidate + self._candidate_bias)
        return update * pre_hidden + (1 - update) * candidate


class BasicLSTMUnit(_Unit):
    """One step of a long short-term memory; the parameters are created at the first call.

    Args:
        forget_bias (float): bias of the forget gate.

    The others are those of :class:`BasicGRUUnit`.
    """

    def __init__(
        self,
        name_scope,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        forget_bias=1.0,
        dtype="float32",
    ):
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype)
        self._forget_bias = forget_bias

    def _build_once(self, input, pre_hidden, pre_cell):  # noqa: A002
        inputs = input.shape[-1]
        assert inputs > 0, "BasicLSTMUnit: the width of the input must be known"
        self._weight, bias = self._make(inputs, 4)
        self._bias = bias()

    def forward(self, input, pre_hidden, pre_cell):  # noqa: A002
        """(state, cell) after the step, both [batch, hidden_size]."""
        sums = _ops.matmul(_ops.concat([input, pre_hidden], axis=1), self._weight) + self._bias
        i, j, f, o = _ops.split(sums, num=4, axis=1)
        kept = pre_cell * _ops.sigmoid(f + self._forget_bias)
        cell = kept + _ops.sigmoid(i) * _ops.tanh(j)
        return _ops.tanh(cell) * _ops.sigmoid(o), cell
