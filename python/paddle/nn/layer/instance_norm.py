"""InstanceNorm, LocalResponseNorm and SpectralNorm."""

from __future__ import annotations

import math
from typing import Any

from paddle import _ops
from paddle.nn import functional as F
from paddle.nn.initializer.base import Constant, Normal
from paddle.nn.layer.function_layer import FunctionLayer
from paddle.nn.layer.layers import Layer
from paddle.nn.param_attr import ParamAttr

__all__ = ["InstanceNorm1D", "InstanceNorm2D", "InstanceNorm3D", "LocalResponseNorm", "SpectralNorm"]


class _InstanceNormBase(Layer):
    """Base of InstanceNorm1D, 2D and 3D; subclasses define the accepted ranks."""

    _dims: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        if weight_attr is False or bias_attr is False:
            assert weight_attr == bias_attr, "InstanceNorm: weight_attr and bias_attr must be False together"
        self._epsilon = epsilon
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        self._num_features = num_features
        self.scale = self.bias = None
        if weight_attr is not False:
            self.scale = self.create_parameter(
                attr=weight_attr, shape=[num_features], default_initializer=Constant(1.0)
            )
            self.bias = self.create_parameter(attr=bias_attr, shape=[num_features], is_bias=True)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The normalized input; ValueError for another rank."""
        if len(input.shape) not in self._dims:
            wanted = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"{type(self).__name__}: expected {wanted} input (got {len(input.shape)}D input)")
        return F.instance_norm(input, weight=self.scale, bias=self.bias, eps=self._epsilon)

    def extra_repr(self) -> str:
        """Channels and epsilon."""
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


_ARGUMENTS = """

    Args:
        num_features: the number of channels.
        epsilon: added to the variance.
        momentum, data_format, name: ignored.
        weight_attr, bias_attr: ParamAttr (or a form it accepts) of scale and shift of each channel (default: ones and
            zeros); False for both (AssertionError for one of them) omits the step.
"""


class InstanceNorm1D(_InstanceNormBase):
    __doc__ = "Normalizes each channel of each row of [N, C] or [N, C, L]." + _ARGUMENTS
    _dims = (2, 3)


class InstanceNorm2D(_InstanceNormBase):
    __doc__ = "Normalizes each channel of each image of [N, C, H, W]." + _ARGUMENTS
    _dims = (4,)


class InstanceNorm3D(_InstanceNormBase):
    __doc__ = "Normalizes each channel of each image of [N, C, D, H, W]." + _ARGUMENTS
    _dims = (5,)


class LocalResponseNorm(FunctionLayer):
    """`paddle.nn.functional.local_response_norm` as a layer, with its arguments.

    Examples:
        >>> import paddle
        >>> paddle.nn.LocalResponseNorm(size=5)(paddle.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """

    _function = staticmethod(F.local_response_norm)
    _prefix = ""

    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(size=size, alpha=alpha, beta=beta, k=k, data_format=data_format, name=name)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The function of the input."""
        return self._function(input, **self._arguments)

    def extra_repr(self) -> str:
        """The main arguments."""
        return super().extra_repr().replace(", data_format=NCHW", "")


class SpectralNorm(Layer):
    """A weight divided by its largest singular value, computed by power iteration; the start vectors are random
    parameters that are not trained.

    Args:
        weight_shape: the shape of the weight, of 2 to 5 dimensions.
        dim: the dimension (0 or 1) of the matrix rows; all others together are the columns.
        power_iters: iterations per call.
        eps: added to the norms that the iteration divides by.
        dtype: element type of the weight.

    Examples:
        >>> import paddle
        >>> norm = paddle.nn.SpectralNorm([2, 2], power_iters=20)
        >>> [round(v, 3) for v in norm(paddle.to_tensor([[4.0, 0.0], [0.0, 2.0]])).numpy().ravel().tolist()]
        [1.0, 0.0, 0.0, 0.5]
    """

    def __init__(
        self, weight_shape: Any, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, dtype: Any = "float32"
    ) -> None:
        super().__init__()
        self._power_iters = power_iters
        self._eps = eps
        self._dim = dim
        self._dtype = dtype
        self._weight_shape = list(weight_shape)
        rows = self._weight_shape[dim]
        self.weight_u = self._start(rows)
        self.weight_v = self._start(math.prod(self._weight_shape) // rows)

    def _start(self, size: int) -> Any:
        start = self.create_parameter(
            attr=ParamAttr(), shape=[size], dtype=self._dtype, default_initializer=Normal(0.0, 1.0)
        )
        start.stop_gradient = True
        return start

    def forward(self, weight: Any) -> Any:
        """The normalized weight."""
        return _ops.spectral_norm(
            weight, self.weight_u, self.weight_v, dim=self._dim, power_iters=self._power_iters, eps=self._eps
        )
