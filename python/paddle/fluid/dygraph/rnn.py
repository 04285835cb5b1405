"""GRUUnit, LSTMCell and GRUCell of fluid.dygraph: single steps of recurrent networks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from paddle import _ops
from paddle._basics.element_types import FLOATS
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional import sigmoid, tanh
from paddle.nn.layer.layers import Layer
from paddle.nn.param_attr import ParamAttr
from paddle.tensor import concat, matmul, split

__all__ = ["GRUUnit", "LSTMCell", "GRUCell"]

_UNITS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


class GRUUnit(Layer):
    """One step of a GRU; the input is already multiplied by the input weights.

    Args:
        size (int): 3 * width.
        param_attr, bias_attr (ParamAttr): of the weight [width, 3 * width] and the bias [1, 3 * width] (False: none).
        activation, gate_activation (str): "sigmoid", "tanh", "relu" or "identity".
        origin_mode (bool): h = u * previous + (1 - u) * c instead of h = (1 - u) * previous + u * c.
        dtype (str): "float32" or "float64".

    Examples:
        >>> import paddle
        >>> unit = paddle.fluid.dygraph.GRUUnit(6)
        >>> hidden, reset, gate = unit(paddle.ones([4, 6]), paddle.zeros([4, 2]))
        >>> hidden.shape
        [4, 2]
    """

    def __init__(
        self,
        size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        activation: str = "tanh",
        gate_activation: str = "sigmoid",
        origin_mode: bool = False,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        self.activation = _UNITS[activation]
        self.gate_activation = _UNITS[gate_activation]
        self._origin_mode = origin_mode
        width = size // 3
        self.weight = self.create_parameter(attr=param_attr, shape=[width, 3 * width], dtype=dtype)
        self.bias = self.create_parameter(attr=bias_attr, shape=[1, 3 * width], dtype=dtype, is_bias=True)

    def forward(self, input: Any, hidden: Any) -> tuple[Any, Any, Any]:  # noqa: A002
        """(states, reset previous states, gates)."""
        check_variable_and_dtype(input, "input", FLOATS, "GRUUnit")
        check_variable_and_dtype(hidden, "hidden", FLOATS, "GRUUnit")
        gate, reset, updated = _ops.gru_unit(
            input,
            hidden,
            self.weight,
            self.bias,
            activation=self.activation,
            gate_activation=self.gate_activation,
            origin_mode=self._origin_mode,
        )
        return updated, reset, gate


def _named(attr: Any, suffix: str) -> Any:
    """The ParamAttr of one of several parameters: an explicit name gets a suffix."""
    if isinstance(attr, str):
        return ParamAttr(attr + suffix)
    if getattr(attr, "name", None) is None:
        return attr
    attr = copy.deepcopy(attr)
    attr.name += suffix
    return attr


class _Cell(Layer):
    """Base of the cells: arguments, and the parameters in CUDNN's layout.

    Args:
        gates (int): number of gates.
    """

    def __init__(
        self,
        gates: int,
        hidden_size: int,
        input_size: int,
        param_attr: Any,
        bias_attr: Any,
        gate_activation: Callable | None,
        activation: Callable | None,
        use_cudnn_impl: bool,
        dtype: str,
    ) -> None:
        super().__init__()
        self._gates = gates
        self._hidden_size = hidden_size
        self._input_size = input_size
        self._param_attr = param_attr
        self._bias_attr = bias_attr
        self._dtype = dtype
        self._gate_activation = gate_activation or sigmoid
        self._activation = activation or tanh
        self._use_cudnn_impl = use_cudnn_impl
        if use_cudnn_impl:
            width = gates * hidden_size
            self._weight_ih = self._weight_of([width, input_size], "_weight_ih")
            self._weight_hh = self._weight_of([width, hidden_size], "_weight_hh")
            self._bias_ih = self._bias_of(width, "_bias_ih")
            self._bias_hh = self._bias_of(width, "_bias_hh")

    def _weight_of(self, shape: list[int], suffix: str) -> Any:
        return self.create_parameter(attr=_named(self._param_attr, suffix), shape=shape, dtype=self._dtype)

    def _bias_of(self, width: int, suffix: str) -> Any:
        return self.create_parameter(
            attr=_named(self._bias_attr, suffix), shape=[width], dtype=self._dtype, is_bias=True
        )

    def _parts(self, input: Any, hidden: Any) -> tuple[list[Any], list[Any]]:  # noqa: A002
        """The products of the input and of the previous state, gate by gate."""
        of_input = matmul(input, self._weight_ih, transpose_y=True)
        of_hidden = matmul(hidden, self._weight_hh, transpose_y=True)
        if self._bias_ih is not None:
            of_input, of_hidden = of_input + self._bias_ih, of_hidden + self._bias_hh
        return split(of_input, self._gates, axis=1), split(of_hidden, self._gates, axis=1)


def _linear(inputs: list[Any], weight: Any, bias: Any) -> Any:
    """The product of concatenated inputs, with an optional bias."""
    product = matmul(concat(inputs, 1), weight)
    return product if bias is None else product + bias


class LSTMCell(_Cell):
    """One step of an LSTM, composed of basic operators.

    Source: paddle.fluid.dygraph.LSTMCell of Paddle 2.0.2.

    With gates in the order i, f, g, o, each the sum of a product of the input and one of the state with their biases:
    c = sigmoid(f) * previous + sigmoid(i) * tanh(g), h = sigmoid(o) * tanh(c). Without `use_cudnn_impl` it is the step
    of `fluid.contrib.layers.BasicLSTMUnit`: one product of both concatenated, in the order i, g, f, o, and
    sigmoid(f + forget_bias).

    Args:
        hidden_size (int): width of the states. input_size (int): width of the input.
        param_attr, bias_attr (ParamAttr): of the weights [4 * hidden_size, input_size] and [4 * hidden_size,
            hidden_size] and a bias [4 * hidden_size] of each, whose names get the suffixes _weight_ih, _weight_hh,
            _bias_ih and _bias_hh; otherwise of one weight [input_size + hidden_size, 4 * hidden_size] and one bias.
        gate_activation, activation (callable): replace sigmoid and tanh. Without `use_cudnn_impl` they replace
            those of f and o, and of c.
        forget_bias (float): only without `use_cudnn_impl`.
        use_cudnn_impl (bool): selects the form. dtype (str): "float32" or "float64".

    Examples:
        >>> import paddle
        >>> cell = paddle.fluid.dygraph.LSTMCell(8, 3, dtype="float32")
        >>> hidden, memory = cell(paddle.ones([4, 3]), paddle.zeros([4, 8]), paddle.zeros([4, 8]))
        >>> hidden.shape, memory.shape
        ([4, 8], [4, 8])
    """

    def __init__(
        self,
        hidden_size: int,
        input_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Callable | None = None,
        activation: Callable | None = None,
        forget_bias: float = 1.0,
        use_cudnn_impl: bool = True,
        dtype: str = "float64",
    ) -> None:
        super().__init__(
            4, hidden_size, input_size, param_attr, bias_attr, gate_activation, activation, use_cudnn_impl, dtype
        )
        self._forget_bias = forget_bias
        if not use_cudnn_impl:
            self._weight = self._weight_of([input_size + hidden_size, 4 * hidden_size], "")
            self._bias = self._bias_of(4 * hidden_size, "")

    def forward(self, input: Any, pre_hidden: Any, pre_cell: Any) -> tuple[Any, Any]:  # noqa: A002
        """(state, cell) after the step: [batch, hidden_size] each; the input is [batch, input_size]."""
        gate, act = self._gate_activation, self._activation
        if self._use_cudnn_impl:
            i, f, g, o = (a + b for a, b in zip(*self._parts(input, pre_hidden), strict=True))
            cell = gate(f) * pre_cell + gate(i) * act(g)
        else:
            product = _linear([input, pre_hidden], self._weight, self._bias)
            i, g, f, o = split(product, num_or_sections=4, axis=-1)
            cell = pre_cell * gate(f + self._forget_bias) + sigmoid(i) * tanh(g)
        return act(cell) * gate(o), cell


class GRUCell(_Cell):
    """One step of a GRU, composed of basic operators.

    Source: paddle.fluid.dygraph.GRUCell of Paddle 2.0.2.

    With gates in the order r, u, c, each with a product of the input and one of the state, with their biases:
    c = tanh(c of the input + sigmoid(r) * c of the state), h = u * previous + (1 - u) * c with u = sigmoid(u). Without
    `use_cudnn_impl` it is the step of `fluid.contrib.layers.BasicGRUUnit`: r and u from one product of both
    concatenated, c from another one, in which the state is multiplied by r first.

    Args:
        hidden_size (int): width of the state. input_size (int): width of the input.
        param_attr, bias_attr (ParamAttr): of the weights [3 * hidden_size, input_size] and [3 * hidden_size,
            hidden_size] and a bias [3 * hidden_size] of each, whose names get the suffixes _weight_ih, _weight_hh,
            _bias_ih and _bias_hh; otherwise of the weights [input_size + hidden_size, 2 * hidden_size] and
            [input_size + hidden_size, hidden_size] and their biases: _gate_weight, _candidate_weight, _gate_bias,
            _candidate_bias.
        gate_activation, activation (callable): replace sigmoid and tanh.
        use_cudnn_impl (bool): selects the form. dtype (str): "float32" or "float64".

    Examples:
        >>> import paddle
        >>> cell = paddle.fluid.dygraph.GRUCell(8, 3, dtype="float32")
        >>> cell(paddle.ones([4, 3]), paddle.zeros([4, 8])).shape
        [4, 8]
    """

    def __init__(
        self,
        hidden_size: int,
        input_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Callable | None = None,
        activation: Callable | None = None,
        use_cudnn_impl: bool = True,
        dtype: str = "float64",
    ) -> None:
        super().__init__(
            3, hidden_size, input_size, param_attr, bias_attr, gate_activation, activation, use_cudnn_impl, dtype
        )
        if not use_cudnn_impl:
            rows = input_size + hidden_size
            self._gate_weight = self._weight_of([rows, 2 * hidden_size], "_gate_weight")
            self._candidate_weight = self._weight_of([rows, hidden_size], "_candidate_weight")
            self._gate_bias = self._bias_of(2 * hidden_size, "_gate_bias")
            self._candidate_bias = self._bias_of(hidden_size, "_candidate_bias")

    def forward(self, input: Any, pre_hidden: Any) -> Any:  # noqa: A002
        """The state after the step, [batch, hidden_size]; the input is [batch, input_size]."""
        gate, act = self._gate_activation, self._activation
        if self._use_cudnn_impl:
            (r, u, c), (r_hidden, u_hidden, c_hidden) = self._parts(input, pre_hidden)
            new = act(c + gate(r + r_hidden) * c_hidden)
            return (pre_hidden - new) * gate(u + u_hidden) + new
        gates = gate(_linear([input, pre_hidden], self._gate_weight, self._gate_bias))
        r, u = split(gates, num_or_sections=2, axis=1)
        new = act(_linear([input, r * pre_hidden], self._candidate_weight, self._candidate_bias))
        return u * pre_hidden + (1 - u) * new
