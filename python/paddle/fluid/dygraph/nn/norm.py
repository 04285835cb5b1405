"""InstanceNorm and PRelu of fluid.dygraph.nn; SpectralNorm is that of paddle.nn."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn import functional as F
from paddle.nn.initializer.base import Constant
from paddle.nn.layer.instance_norm import SpectralNorm
from paddle.nn.layer.layers import Layer

__all__ = ["InstanceNorm", "PRelu", "SpectralNorm"]


class InstanceNorm(Layer):
    """Instance normalization: each channel of each sample separately.

    Args:
        num_channels: the number of channels.
        epsilon: added to the variance.
        param_attr, bias_attr: ParamAttr or equivalent of scale and shift (default: ones and zeros); False, for both
            (AssertionError otherwise): no parameters.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.InstanceNorm(3)(paddle.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """

    def __init__(
        self,
        num_channels: int,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        if param_attr is False or bias_attr is False:
            assert param_attr == bias_attr, "InstanceNorm: param_attr and bias_attr must be False together"
        self._epsilon, self._param_attr, self._bias_attr, self._dtype = epsilon, param_attr, bias_attr, dtype
        self.scale = self.bias = None
        if param_attr is not False:
            self.scale = self.create_parameter(
                attr=param_attr, shape=[num_channels], dtype=dtype, default_initializer=Constant(1.0)
            )
            self.bias = self.create_parameter(attr=bias_attr, shape=[num_channels], dtype=dtype, is_bias=True)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The normalized input, of 2 to 5 dimensions."""
        return F.instance_norm(input, weight=self.scale, bias=self.bias, eps=self._epsilon)


class PRelu(Layer):
    """max(x, 0) + slope * min(x, 0) with trainable slopes.

    Args:
        mode: "all": one slope; "channel": one per channel of `channel` channels; "element": one per element of a sample
            of `input_shape` (ValueError for another mode, AssertionError if its argument is missing).
        channel, input_shape: see above.
        param_attr: ParamAttr or equivalent of the slopes (default: ones).
        dtype: of the input.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.PRelu("channel", channel=3)(paddle.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """

    def __init__(
        self,
        mode: str,
        channel: int | None = None,
        input_shape: Any = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(name_scope="prelu")
        self._mode, self._param_attr, self._dtype = mode, param_attr, dtype
        if mode == "all":
            self._alpha_shape = [1]
        elif mode == "channel":
            assert isinstance(channel, INTS), "channel argument is required when mode is 'channel'."
            self._alpha_shape = [1, channel, 1, 1]
        elif mode == "element":
            assert isinstance(input_shape, (list, tuple)), "input_shape argument is required when mode is 'element'."
            self._alpha_shape = [1, *input_shape[1:]]
        else:
            raise ValueError(f"mode should be one of all, channel, element, got {mode!s:.200}")
        self.weight = self.create_parameter(
            attr=param_attr, shape=self._alpha_shape, dtype="float32", default_initializer=Constant(1.0)
        )

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The activation of `input`."""
        check_variable_and_dtype(input, "input", ["float32"], "PRelu")
        return _ops.prelu(input, self.weight, mode=self._mode)
