"""Layers of activations."""
from __future__ import annotations

from typing import Any

from paddle.nn import functional as F
from paddle.nn.layer.layers import Layer

__all__ = [
    "ELU",
    "GELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "ReLU",
    "ReLU6",
    "SELU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Swish",
    "Tanh",
    "Tanhshrink",
    "ThresholdedReLU",
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


class Softsign(_Activation):
    """x / (1 + |x|): `paddle.nn.functional.softsign` as a layer."""

    def forward(self, x: Any) -> Any:
        """x / (1 + |x|)."""
        return F.softsign(x, self._name)


class Tanhshrink(_Activation):
    """x - tanh(x): `paddle.nn.functional.tanhshrink` as a layer."""

    def forward(self, x: Any) -> Any:
        """x - tanh(x)."""
        return F.tanhshrink(x, self._name)


class _Threshold(Layer):
    """An activation with a threshold."""

    def __init__(self, threshold: float, name: str | None = None) -> None:
        super().__init__()
        self._threshold = threshold
        self._name = name

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"threshold={self._threshold}", self._name)


class Hardshrink(_Threshold):
    """x outside -threshold..threshold, 0 inside: `paddle.nn.functional.hardshrink` as a layer."""

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold, name)

    def forward(self, x: Any) -> Any:
        """hardshrink(x)."""
        return F.hardshrink(x, self._threshold, self._name)


class Softshrink(_Threshold):
    """x brought nearer to 0 by `threshold`: `paddle.nn.functional.softshrink` as a layer."""

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold, name)

    def forward(self, x: Any) -> Any:
        """softshrink(x)."""
        return F.softshrink(x, self._threshold, self._name)


class ThresholdedReLU(_Threshold):
    """x above `threshold`, 0 elsewhere: `paddle.nn.functional.thresholded_relu` as a layer."""

    def __init__(self, threshold: float = 1.0, name: str | None = None) -> None:
        super().__init__(threshold, name)

    def forward(self, x: Any) -> Any:
        """thresholded_relu(x)."""
        return F.thresholded_relu(x, self._threshold, self._name)


class Hardtanh(Layer):
    """x cut to min..max: `paddle.nn.functional.hardtanh` as a layer.

    Examples:
        >>> import paddle
        >>> paddle.nn.Hardtanh()(paddle.to_tensor([-1.5, 0.25, 2.5])).numpy().tolist()
        [-1.0, 0.25, 1.0]
    """

    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None:  # noqa: A002
        super().__init__()
        self._min = min
        self._max = max
        self._name = name

    def forward(self, x: Any) -> Any:
        """hardtanh(x)."""
        return F.hardtanh(x, self._min, self._max, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"min={self._min}, max={self._max}", self._name)


class SELU(Layer):
    """scale * x where x is positive, scale * alpha * (exp(x) - 1) elsewhere: `paddle.nn.functional.selu` as a layer."""

    def __init__(
        self,
        scale: float = 1.0507009873554804934193349852946,
        alpha: float = 1.6732632423543772848170429916717,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._scale = scale
        self._alpha = alpha
        self._name = name

    def forward(self, x: Any) -> Any:
        """selu(x)."""
        return F.selu(x, self._scale, self._alpha, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return _and_name(f"scale={self._scale:.16f}, alpha={self._alpha:.16f}", self._name)


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
