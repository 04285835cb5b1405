"""Steps of recurrent networks as layers of fluid.dygraph."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.element_types import FLOATS
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer.layers import Layer

__all__ = ["GRUUnit"]

_UNITS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


class GRUUnit(Layer):
    """One step of a GRU; the product of its input is made before.

    Args:
        size (int): 3 * width.
        param_attr, bias_attr (ParamAttr): of the weight [width, 3 * width] and the bias [1, 3 * width] (False: none).
        activation, gate_activation (str): "sigmoid", "tanh", "relu" or "identity".
        origin_mode (bool): h = u * before + (1 - u) * c instead of h = (1 - u) * before + u * c.
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
        """(states, states before behind the reset gate, gates)."""
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
