"""Normalization layers."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from paddle import _ops
from paddle._basics.mode import in_static_mode
from paddle.nn import functional as F
from paddle.nn.initializer.base import Constant
from paddle.nn.layer.layers import Layer
from paddle.nn.param_attr import ParamAttr

__all__ = ["BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "GroupNorm", "LayerNorm"]


def _running(layer: Layer, name: str | None, value: float, shape: list[int], dtype: Any, average: bool = True) -> Any:
    """A running statistic: a parameter that no optimizer updates."""
    attr = ParamAttr(name=name, initializer=Constant(value), trainable=False, do_model_average=average)
    stat = layer.create_parameter(attr=attr, shape=shape, dtype=dtype)
    stat.stop_gradient = True
    return stat


def _frozen(attr: Any, given: bool = True) -> bool:
    """Whether the attributes say that the parameter is not trained."""
    return given and getattr(attr, "learning_rate", None) == 0.0


def _scale_and_shift(layer: Layer, weight_attr: Any, bias_attr: Any, shape: list[int], dtype: Any = None) -> None:
    """Creates weight and bias of a layer. Attributes that are False give untrained parameters of ones and zeros,
    because state dicts name them."""
    for name, attr, first in (("weight", weight_attr, Constant(1.0)), ("bias", bias_attr, None)):
        said = None if attr is False else attr
        made = layer.create_parameter(shape, said, dtype, is_bias=first is None, default_initializer=first)
        made.stop_gradient = attr is False or _frozen(attr) or made.stop_gradient
        setattr(layer, name, made)


class _BatchNormBase(Layer):
    """Base of BatchNorm1D, 2D and 3D; subclasses define formats and ranks."""

    _formats: dict[str, str] = {}
    _dims: tuple[int, ...] = ()
    _warned = False

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_features = num_features
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        self._use_global_stats = use_global_stats
        default = self._helper.get_default_dtype()
        # Statistics need more than half precision.
        dtype = "float32" if default == "float16" else default
        shape = [num_features]
        _scale_and_shift(self, weight_attr, bias_attr, shape, dtype)
        self._mean = _running(self, name and name + "_mean", 0.0, shape, dtype)
        self._variance = _running(self, name and name + "_variance", 1.0, shape, dtype)
        self._data_format = data_format
        self._in_place = False
        self._momentum = momentum
        self._epsilon = epsilon
        self._fuse_with_relu = False
        self._name = name

    def _check_input_dim(self, input: Any) -> None:  # noqa: A002
        if len(input.shape) not in self._dims:
            wanted = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"{type(self).__name__}: expected {wanted} input (got {len(input.shape)}D input)")

    def _check_data_format(self, data_format: str) -> None:
        if data_format not in self._formats:
            raise ValueError(f"expected {', '.join(self._formats)} for data_format input, but got {data_format!s:.200}")
        self._data_format = self._formats[data_format]

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The normalized input; ValueError for another rank or format."""
        self._check_data_format(self._data_format)
        self._check_input_dim(input)
        if self.training and not _BatchNormBase._warned:
            _BatchNormBase._warned = True
            warnings.warn("a batch norm that trains always updates its running mean and variance")
        return F.batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            self._momentum,
            self._epsilon,
            self._data_format,
            self._use_global_stats,
        )

    def extra_repr(self) -> str:
        """The main arguments."""
        text = f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}"
        if self._data_format != "NCHW":
            text += f", data_format={self._data_format}"
        return text if self._name is None else f"{text}, name={self._name}"


_ARGUMENTS = """

    Args:
        num_features: the number of channels.
        momentum: running = momentum * running + (1 - momentum) * batch.
        epsilon: added to the variance.
        weight_attr, bias_attr: ParamAttr or a form it accepts (default: ones and zeros); False: not trained.
        data_format: {formats}.
        use_global_stats: True: always use the running statistics; False: always those of the batch.
        name: prefix of the names of the running statistics.
"""


class BatchNorm1D(_BatchNormBase):
    __doc__ = "Normalizes the channels of [N, C] or [N, C, L]." + _ARGUMENTS.format(
        formats='"NC" or "NCL" (the same as "NCHW"), or "NLC"'
    )
    _formats = {"NCHW": "NCHW", "NC": "NCHW", "NCL": "NCHW", "NHWC": "NHWC", "NLC": "NHWC"}
    _dims = (2, 3)


class BatchNorm2D(_BatchNormBase):
    __doc__ = "Normalizes the channels of [N, C, H, W]." + _ARGUMENTS.format(formats='"NCHW" or "NHWC"')
    _formats = {"NCHW": "NCHW", "NHWC": "NHWC"}
    _dims = (4,)


class BatchNorm3D(_BatchNormBase):
    __doc__ = "Normalizes the channels of [N, C, D, H, W]." + _ARGUMENTS.format(
        formats='"NCDHW" (the same as "NCHW") or "NDHWC"'
    )
    _formats = {"NCHW": "NCHW", "NCDHW": "NCHW", "NHWC": "NHWC", "NDHWC": "NHWC"}
    _dims = (5,)


class LayerNorm(Layer):
    """Normalizes over the last dimensions.

    Args:
        normalized_shape: the last dimensions: a list or tuple of int, or an int.
        epsilon: added to the variance.
        weight_attr, bias_attr: ParamAttr or a form it accepts (default: ones and zeros); False omits the step.
        name: ignored.

    Examples:
        >>> import paddle
        >>> paddle.nn.LayerNorm(4)(paddle.ones([2, 4])).numpy().tolist()
        [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = [normalized_shape]
        self._normalized_shape = [int(n) for n in normalized_shape]
        self._epsilon = epsilon
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        shape = [math.prod(self._normalized_shape)]
        self.weight = self.create_parameter(attr=weight_attr, shape=shape, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(attr=bias_attr, shape=shape, is_bias=True)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The normalized input; ValueError unless its shape ends with the normalized shape."""
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        """Shape and epsilon."""
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(Layer):
    """Normalizes each image over groups of channels.

    Args:
        num_groups: number of groups; must divide the channels (ValueError in forward).
        num_channels: number of channels.
        epsilon: added to the variance.
        weight_attr, bias_attr: ParamAttr (or a form it accepts) of scale and shift of each channel (default: ones and
            zeros); False: not trained.
        data_format: only "NCHW" (ValueError).
        name: ignored.

    Examples:
        >>> import paddle
        >>> paddle.nn.GroupNorm(2, 4)(paddle.ones([1, 4, 2, 2])).shape
        [1, 4, 2, 2]
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        if data_format != "NCHW":
            raise ValueError("unsupported data layout:" + data_format)
        self._num_groups, self._num_channels, self._epsilon = num_groups, num_channels, epsilon
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        _scale_and_shift(self, weight_attr, bias_attr, [num_channels])

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The normalized input."""
        return _ops.group_norm(input, self.weight, self.bias, epsilon=self._epsilon, groups=self._num_groups)[0]

    def extra_repr(self) -> str:
        """Groups, channels and epsilon."""
        return f"num_groups={self._num_groups}, num_channels={self._num_channels}, epsilon={self._epsilon}"


class BatchNorm(Layer):
    """Normalizes each channel over batch and space; the form of 1.x, with an activation.

    Args:
        num_channels: the number of channels.
        act: an activation operator, such as "relu".
        is_test: in a static Program: normalize by the running statistics.
        momentum: running = momentum * running + (1 - momentum) * batch.
        epsilon: added to the variance.
        param_attr, bias_attr: ParamAttr (or a form it accepts) of scale and shift (default: ones and zeros).
        dtype: element type of the parameters.
        data_layout: "NCHW": channels second; "NHWC": last.
        in_place: in a static Program: write the result into the input.
        moving_mean_name, moving_variance_name: names of the running statistics.
        do_model_average_for_mean_and_var: whether they are included in model averaging.
        use_global_stats: always normalize by the running statistics.
        trainable_statistics: normalize by the batch statistics in evaluation mode, too.

    Examples:
        >>> import paddle
        >>> paddle.nn.BatchNorm(3, act="relu")(paddle.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__()
        assert bias_attr is not False, "batch_norm: bias_attr must not be False"
        self._param_attr = param_attr
        self._bias_attr = bias_attr
        self._act = act
        self._dtype = "float32" if dtype == "float16" else dtype
        shape = [num_channels]
        self.weight = self.create_parameter(
            attr=param_attr, shape=shape, dtype=self._dtype, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter(attr=bias_attr, shape=shape, dtype=self._dtype, is_bias=True)
        if _frozen(param_attr, use_global_stats):
            self.weight.stop_gradient = self.bias.stop_gradient = True
        average = do_model_average_for_mean_and_var
        self._mean = _running(self, moving_mean_name, 0.0, shape, self._dtype, average)
        self._variance = _running(self, moving_variance_name, 1.0, shape, self._dtype, average)
        self._in_place = in_place
        self._data_layout = data_layout
        self._momentum = momentum
        self._epsilon = epsilon
        self._is_test = is_test
        self._use_global_stats = use_global_stats
        self._trainable_statistics = trainable_statistics

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The activation of the normalized input."""
        dygraph = not in_static_mode()
        outputs = _ops.batch_norm(
            input,
            self.weight,
            self.bias,
            self._mean,
            self._variance,
            momentum=self._momentum,
            epsilon=self._epsilon,
            is_test=not self.training if dygraph else self._is_test,
            data_layout=self._data_layout,
            use_global_stats=self._use_global_stats,
            trainable_statistics=self._trainable_statistics,
            MeanOut=self._mean,
            VarianceOut=self._variance,
            **({"Y": input} if self._in_place and not dygraph else {}),
        )
        if not dygraph:
            outputs[3].stop_gradient = outputs[4].stop_gradient = True
        return outputs[0] if self._act is None else getattr(_ops, self._act)(outputs[0])
