"""Activation layers."""

from __future__ import annotations

from typing import Any

from paddle._basics.default_dtype import get_default_dtype
from paddle.nn import functional as F
from paddle.nn.initializer.base import Constant
from paddle.nn.layer.function_layer import UnaryFunctionLayer
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
    "Maxout",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "Sigmoid",
    "LogSoftmax",
    "Softmax",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Swish",
    "Tanh",
    "Tanhshrink",
    "ThresholdedReLU",
]


class _Activation(UnaryFunctionLayer):
    """An activation without arguments."""

    _name: str | None

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name)

    def forward(self, x: Any) -> Any:
        """The activation of `x`."""
        return self._function(x, name=self._name)


class ReLU(_Activation):
    """max(x, 0): `paddle.nn.functional.relu` as a layer.

    Examples:
        >>> import paddle
        >>> paddle.nn.ReLU()(paddle.to_tensor([-2.0, 1.0])).numpy().tolist()
        [0.0, 1.0]
    """

    _function = staticmethod(F.relu)


class ReLU6(_Activation):
    """min(max(x, 0), 6): `paddle.nn.functional.relu6` as a layer."""

    _function = staticmethod(F.relu6)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)): `paddle.nn.functional.sigmoid` as a layer."""

    _function = staticmethod(F.sigmoid)

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.name = name


class LogSigmoid(_Activation):
    """log(sigmoid(x)): `paddle.nn.functional.log_sigmoid` as a layer."""

    _function = staticmethod(F.log_sigmoid)


class Tanh(_Activation):
    """The hyperbolic tangent: `paddle.nn.functional.tanh` as a layer."""

    _function = staticmethod(F.tanh)


class Hardswish(_Activation):
    """x * min(max(x + 3, 0), 6) / 6: `paddle.nn.functional.hardswish` as a layer."""

    _function = staticmethod(F.hardswish)


class Swish(_Activation):
    """x * sigmoid(x): `paddle.nn.functional.swish` as a layer."""

    _function = staticmethod(F.swish)


class Softsign(_Activation):
    """x / (1 + |x|): `paddle.nn.functional.softsign` as a layer."""

    _function = staticmethod(F.softsign)


class Tanhshrink(_Activation):
    """x - tanh(x): `paddle.nn.functional.tanhshrink` as a layer."""

    _function = staticmethod(F.tanhshrink)


class Hardshrink(UnaryFunctionLayer):
    """x where |x| > threshold, 0 elsewhere: `paddle.nn.functional.hardshrink` as a layer."""

    _function = staticmethod(F.hardshrink)

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold=threshold, name=name)


class Softshrink(UnaryFunctionLayer):
    """x moved towards 0 by `threshold`: `paddle.nn.functional.softshrink` as a layer."""

    _function = staticmethod(F.softshrink)

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold=threshold, name=name)


class ThresholdedReLU(UnaryFunctionLayer):
    """x above `threshold`, 0 elsewhere: `paddle.nn.functional.thresholded_relu` as a layer."""

    _function = staticmethod(F.thresholded_relu)

    def __init__(self, threshold: float = 1.0, name: str | None = None) -> None:
        super().__init__(threshold=threshold, name=name)


class Hardtanh(UnaryFunctionLayer):
    """x clipped to [min, max]: `paddle.nn.functional.hardtanh` as a layer.

    Examples:
        >>> import paddle
        >>> paddle.nn.Hardtanh()(paddle.to_tensor([-1.5, 0.25, 2.5])).numpy().tolist()
        [-1.0, 0.25, 1.0]
    """

    _function = staticmethod(F.hardtanh)

    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None:  # noqa: A002
        super().__init__(min=min, max=max, name=name)


class SELU(UnaryFunctionLayer):
    """scale * x where x is positive, scale * alpha * (exp(x) - 1) elsewhere: `paddle.nn.functional.selu` as a layer."""

    _function = staticmethod(F.selu)

    def __init__(
        self,
        scale: float = 1.0507009873554804934193349852946,
        alpha: float = 1.6732632423543772848170429916717,
        name: str | None = None,
    ) -> None:
        super().__init__(scale=scale, alpha=alpha, name=name)

    def extra_repr(self) -> str:
        """The arguments, with all digits."""
        text = f"scale={self._scale:.16f}, alpha={self._alpha:.16f}"
        return f"{text}, name={self._name}" if self._name else text


class GELU(UnaryFunctionLayer):
    """x times the standard normal distribution function of x: `paddle.nn.functional.gelu` as a layer.

    Args:
        approximate: use the tanh approximation.
        name: a name for the output.
    """

    _function = staticmethod(F.gelu)

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__(approximate=approximate, name=name)


class ELU(UnaryFunctionLayer):
    """x where positive, alpha * (exp(x) - 1) elsewhere: `paddle.nn.functional.elu` as a layer."""

    _function = staticmethod(F.elu)

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(alpha=alpha, name=name)


class Hardsigmoid(_Activation):
    """x / 6 + 0.5, clipped to [0, 1]: `paddle.nn.functional.hardsigmoid` as a layer."""

    _function = staticmethod(F.hardsigmoid)


class LeakyReLU(UnaryFunctionLayer):
    """x where positive, negative_slope * x elsewhere: `paddle.nn.functional.leaky_relu` as a layer."""

    _function = staticmethod(F.leaky_relu)

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__(negative_slope=negative_slope, name=name)


class Softmax(UnaryFunctionLayer):
    """exp(x) divided by its sum along `axis`: `paddle.nn.functional.softmax` as a layer.

    Examples:
        >>> import paddle
        >>> paddle.nn.Softmax()(paddle.zeros([1, 2])).numpy().tolist()
        [[0.5, 0.5]]
    """

    _function = staticmethod(F.softmax)

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(axis=axis, name=name)


class LogSoftmax(UnaryFunctionLayer):
    """log(softmax(x)) along `axis`: `paddle.nn.functional.log_softmax` as a layer.

    Examples:
        >>> import paddle
        >>> paddle.nn.LogSoftmax()(paddle.zeros([1, 2])).exp().numpy().tolist()
        [[0.5, 0.5]]
    """

    _function = staticmethod(F.log_softmax)

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(axis=axis, name=name)


class Softplus(UnaryFunctionLayer):
    """log(1 + exp(beta * x)) / beta: `paddle.nn.functional.softplus` as a layer.

    Args:
        beta: sharpness of the transition at zero.
        threshold: the result is x where beta * x exceeds it.
        name: a name for the output.
    """

    _function = staticmethod(F.softplus)

    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__(beta=beta, threshold=threshold, name=name)


class Maxout(UnaryFunctionLayer):
    """The maximum of each group of channels: `paddle.nn.functional.maxout` as a layer, with its arguments.

    Examples:
        >>> import paddle
        >>> paddle.nn.Maxout(2)(paddle.ones([1, 4, 2, 2])).shape
        [1, 2, 2, 2]
    """

    _function = staticmethod(F.maxout)

    def __init__(self, groups: int, axis: int = 1, name: str | None = None) -> None:
        super().__init__(groups=groups, axis=axis, name=name)


class PReLU(Layer):
    """max(x, 0) + weight * min(x, 0), with a learned weight.

    Args:
        num_parameters: 1, or the number of channels (the second dimension of the input).
        init: initial value of the weight.
        weight_attr: ParamAttr (or a form it accepts) of the weight.
        name: ignored.

    Examples:
        >>> import paddle
        >>> paddle.nn.PReLU()(paddle.to_tensor([-2.0, 1.0])).numpy().tolist()
        [-0.5, 1.0]
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, weight_attr: Any = None, name: str | None = None
    ) -> None:
        super().__init__()
        self._num_parameters = num_parameters
        self._init = init
        self._weight_attr = weight_attr
        self._name = name
        self._weight = self.create_parameter(
            attr=weight_attr, shape=[num_parameters], dtype=get_default_dtype(), default_initializer=Constant(init)
        )

    def forward(self, x: Any) -> Any:
        """`paddle.nn.functional.prelu` of `x`."""
        return F.prelu(x, self._weight)

    def extra_repr(self) -> str:
        """The arguments."""
        name = f", name={self._name}" if self._name else ""
        return f"num_parameters={self._num_parameters}, init={self._init}, dtype={self._dtype}{name}"
