"""Layers of activations."""
from __future__ import annotations

from typing import Any

from paddle.nn import functional as F
from paddle.nn.layer.layers import Layer

__all__ = [
    "ELU",
    "GELU",
    "Hardsigmoid",
    "Hardswish",
    "LeakyReLU",
    "LogSigmoid",
    "ReLU",
    "ReLU6",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Swish",
    "Tanh",
]


class _Activation(Layer):
    """An activation without arguments."""

    _name: str | None

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name

    def extra_repr(self) -> str:
        """The name, if there is one."""
        return f"name={self._name}" if self._name else ""


def _and_name(text: str, name: str | None) -> str:
    return f"{text}, name={name}" if name else text


class ReLU(_Activation):
    """max(x, 0): `paddle.nn.functional.relu` as a layer.

    Examples:
        >>> import paddle
        >>> paddle.nn.ReLU()(paddle.to_tensor([-2.0, 1.0])).numpy().tolist()
        [0.0, 1.0]
    """

    def forward(self, x: Any) -> Any:
        """max(x, 0)."""
        return F.relu(x, self._name)


class ReLU6(_Activation):
    """min(max(x, 0), 6): `paddle.nn.functional.relu6` as a layer."""

    def forward(self, x: Any) -> Any:
        """min(max(x, 0), 6)."""
        return F.relu6(x, self._name)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)): `paddle.nn.functional.sigmoid` as a layer."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.name = name

    def forward(self, x: Any) -> Any:
        """1 / (1 + exp(-x))."""
        return F.sigmoid(x, self.name)


class LogSigmoid(_Activation):
    """log(sigmoid(x)): `paddle.nn.functional.log_sigmoid` as a layer."""

    def forward(self, x: Any) -> Any:
        """log(sigmoid(x))."""
        return F.log_sigmoid(x, self._name)


class Tanh(_Activation):
    """The hyperbolic tangent: `paddle.nn.functional.tanh` as a layer."""

    def forward(self, x: Any) -> Any:
        """tanh(x)."""
        return F.tanh(x, self._name)


class Hardswish(_Activation):
    """x * min(max(x + 3, 0), 6) / 6: `paddle.nn.functional.hardswish` as a layer."""

    def forward(self, x: Any) -> Any:
        """x * min(max(x + 3, 0), 6) / 6."""
        return F.hardswish(x, self._name)


class Swish(_Activation):
    """x * sigmoid(x): `paddle.nn.functional.swish` as a layer."""

    def forward(self, x: Any) -> Any:
        """x * sigmoid(x)."""
        return F.swish(x, self._name)


class GELU(Layer):
    """x times the normal distribution's cumulative function: `paddle.nn.functional.gelu` as a layer.

    Args:
        approximate: use the form with tanh.
        name: a name for the output.
    """

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__()
        self._approximate = approximate
        self._name = name

    def forward(self, x: Any) -> Any:
        """gelu(x)."""
        return F.gelu(x, self._approximate, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"approximate={self._approximate}", self._name)


class ELU(Layer):
    """x where positive, alpha * (exp(x) - 1) elsewhere: `paddle.nn.functional.elu` as a layer."""

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self._alpha = alpha
        self._name = name

    def forward(self, x: Any) -> Any:
        """elu(x)."""
        return F.elu(x, self._alpha, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"alpha={self._alpha}", self._name)


class Hardsigmoid(_Activation):
    """x / 6 + 0.5, cut to 0..1: `paddle.nn.functional.hardsigmoid` as a layer."""

    def forward(self, x: Any) -> Any:
        """hardsigmoid(x)."""
        return F.hardsigmoid(x, name=self._name)


class LeakyReLU(Layer):
    """x where positive, negative_slope * x elsewhere: `paddle.nn.functional.leaky_relu` as a layer."""

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__()
        self._negative_slope = negative_slope
        self._name = name

    def forward(self, x: Any) -> Any:
        """leaky_relu(x)."""
        return F.leaky_relu(x, self._negative_slope, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"negative_slope={self._negative_slope}", self._name)


class Softmax(Layer):
    """exp(x) over its sum along `axis`: `paddle.nn.functional.softmax` as a layer.

    Examples:
        >>> import paddle
        >>> paddle.nn.Softmax()(paddle.zeros([1, 2])).numpy().tolist()
        [[0.5, 0.5]]
    """

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self._axis = axis
        self._dtype = None
        self._name = name

    def forward(self, x: Any) -> Any:
        """softmax(x)."""
        return F.softmax(x, self._axis, self._dtype, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"axis={self._axis}", self._name)


class Softplus(Layer):
    """log(1 + exp(beta * x)) / beta: `paddle.nn.functional.softplus` as a layer.

    Args:
        beta: how sharp the bend is.
        threshold: where beta * x is above it, the result is x.
        name: a name for the output.
    """

    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__()
        self._beta = beta
        self._threshold = threshold
        self._name = name

    def forward(self, x: Any) -> Any:
        """softplus(x)."""
        return F.softplus(x, self._beta, self._threshold, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"beta={self._beta}, threshold={self._threshold}", self._name)
