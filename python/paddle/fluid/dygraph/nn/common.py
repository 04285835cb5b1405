"""Pool2D, Linear, Dropout, Embedding, LayerNorm and GroupNorm of fluid.dygraph.nn."""

from __future__ import annotations

import logging
import math
import numbers
from typing import Any

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import INTS, NUMBERS
from paddle._basics.element_types import HALF_FLOATS
from paddle._basics.mode import in_static_mode
from paddle._dispatch.arguments import convert_to_list
from paddle._programs import guards
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn import functional as F
from paddle.nn.initializer.base import Constant
from paddle.nn.layer.layers import Layer

from .conv import activated

__all__ = ["Dropout", "Embedding", "GroupNorm", "LayerNorm", "Linear", "Pool2D"]


class Pool2D(Layer):
    """Maximum or average pooling of [N, C, H, W].

    Args:
        pool_size, pool_stride, pool_padding: an int, or [height, width].
        pool_type: "max" or "avg".
        global_pooling: pool over the whole image.
        use_cudnn: a bool; has no effect.
        ceil_mode: round output sizes up.
        exclusive: exclude padding from averages.
        data_format: "NCHW" or "NHWC".

    Raises:
        ValueError: for an invalid type or format, a missing size, or a `use_cudnn` that is not a bool.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.Pool2D(2, "max", 2)(paddle.ones([1, 3, 6, 6])).shape
        [1, 3, 3, 3]
    """

    def __init__(
        self,
        pool_size: Any = -1,
        pool_type: str = "max",
        pool_stride: Any = 1,
        pool_padding: Any = 0,
        global_pooling: bool = False,
        use_cudnn: bool = True,
        ceil_mode: bool = False,
        exclusive: bool = True,
        data_format: str = "NCHW",
    ) -> None:
        data_format = data_format.upper()
        pool_type = pool_type.lower()
        if pool_type not in ("max", "avg"):
            raise ValueError(f"Pool2D: pool_type must be max or avg, got '{pool_type!s:.200}'")
        if global_pooling is False and pool_size == -1:
            raise ValueError(f"Pool2D: pool_size must be given unless global_pooling is True, got {pool_size!s:.200}")
        if not isinstance(use_cudnn, bool):
            raise ValueError("use_cudnn: a bool is expected")
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError(f"Pool2D: data_format must be 'NCHW' or 'NHWC', got {data_format!s:.200}")
        super().__init__()
        self._pool_type = pool_type
        self._pool_size = convert_to_list(pool_size, 2, "pool_size")
        self._pool_padding = convert_to_list(pool_padding, 2, "pool_padding")
        self._pool_stride = convert_to_list(pool_stride, 2, "pool_stride")
        self._global_pooling = global_pooling
        self._use_cudnn = use_cudnn
        self._ceil_mode = ceil_mode
        self._exclusive = exclusive
        self._data_format = data_format

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The pooled tensor."""
        check_variable_and_dtype(input, "input", ["int8", "uint8", *HALF_FLOATS], "Pool2D")
        return _ops.pool2d(
            input,
            pooling_type=self._pool_type,
            ksize=self._pool_size,
            global_pooling=self._global_pooling,
            strides=self._pool_stride,
            paddings=self._pool_padding,
            use_cudnn=self._use_cudnn,
            ceil_mode=self._ceil_mode,
            exclusive=self._exclusive,
            data_format=self._data_format,
        )


class Linear(Layer):
    """act(x @ weight + bias).

    Args:
        input_dim, output_dim: the last dimension of input and output.
        param_attr, bias_attr: ParamAttr or equivalent (default: Xavier and zeros); False for the bias: none.
        act: name of an activation operator.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.Linear(2, 4, act="relu")(paddle.ones([3, 2])).shape
        [3, 4]
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        self._act = act
        self._dtype = dtype
        self.weight = self.create_parameter(shape=[input_dim, output_dim], attr=param_attr, dtype=dtype, is_bias=False)
        self.bias = self.create_parameter(shape=[output_dim], attr=bias_attr, dtype=dtype, is_bias=True)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """`input` [..., input_dim] to [..., output_dim]."""
        return activated(F.linear(input, self.weight, self.bias), self._act)


class Dropout(Layer):
    """Sets elements to zero with probability `p` in training.

    Args:
        p: from 0 to 1.
        seed: of the random generator; None: the Program's or the global one.
        dropout_implementation: "downgrade_in_infer" multiplies by 1 - p in evaluation, "upscale_in_train" divides by
            it in training.
        is_test: in a static Program: disable dropout.

    Raises:
        AssertionError: for invalid arguments.
    """

    def __init__(
        self,
        p: float = 0.5,
        seed: int | None = None,
        dropout_implementation: str = "downgrade_in_infer",
        is_test: bool = False,
    ) -> None:
        super().__init__()
        assert isinstance(p, NUMBERS), "Dropout: p must be a number"
        assert 0 <= p <= 1, "Dropout: p must be in [0, 1]"
        assert seed is None or isinstance(seed, INTS), "Dropout: seed must be None or an int"
        assert dropout_implementation in ("downgrade_in_infer", "upscale_in_train"), (
            "Dropout: dropout_implementation must be 'downgrade_in_infer' or 'upscale_in_train'"
        )
        self._dropout_prob = p
        self._seed = seed
        self._dropout_implementation = dropout_implementation
        self._is_test = is_test

    def forward(self, input: Any) -> Any:  # noqa: A002
        """`input` with dropout in training."""
        if self._dropout_prob == 0:
            return input
        if not self._seed and guards.default_main_program().random_seed != 0:
            self._seed = guards.default_main_program().random_seed
        out, mask = _ops.dropout(
            input,
            dropout_prob=float(self._dropout_prob),
            is_test=self._is_test if in_static_mode() else not self.training,
            fix_seed=self._seed is not None,
            seed=self._seed or 0,
            dropout_implementation=self._dropout_implementation,
        )
        if mask is not None:
            mask.stop_gradient = True
        return out


class Embedding(Layer):
    """A lookup table: rows for ids.

    Args:
        size: [rows, width] of the table.
        is_sparse: whether the gradient contains the looked-up rows only.
        is_distributed: whether the table is distributed over parameter servers.
        padding_idx: an id (negative: from the end) whose row is zero, without gradient.
        param_attr: ParamAttr or equivalent of the table (default: Xavier).
        dtype: of the table.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.Embedding([10, 3])(paddle.to_tensor([[1, 2]])).shape
        [1, 2, 3]
    """

    def __init__(
        self,
        size: Any,
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: int | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        self._size = size
        self._is_sparse = is_sparse
        self._is_distributed = is_distributed
        if padding_idx is None:
            self._padding_idx = -1
        else:
            self._padding_idx = padding_idx if padding_idx >= 0 else size[0] + padding_idx
        self._param_attr = param_attr
        self._dtype = dtype
        self._remote_prefetch = is_sparse and not is_distributed
        self.weight = self.create_parameter(attr=param_attr, shape=size, dtype=dtype, is_bias=False)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """Rows for int64 ids of any shape: input.shape + [width]."""
        check_variable_and_dtype(input, "input", ["int64"], "Embedding")
        return _ops.lookup_table_v2(
            self.weight,
            input,
            is_sparse=self._is_sparse,
            is_distributed=self._is_distributed,
            remote_prefetch=self._remote_prefetch,
            padding_idx=self._padding_idx,
        )


class LayerNorm(Layer):
    """Layer normalization over the last dimensions, followed by `act`.

    Args:
        normalized_shape: the last dimensions: a list or tuple of int, or an int.
        scale, shift: whether there are a scale and a shift parameter.
        epsilon: added to the variance.
        param_attr, bias_attr: ParamAttr or equivalent of these (default: ones and zeros).
        act: name of an activation operator.
        dtype: of the parameters.
    """

    def __init__(
        self,
        normalized_shape: Any,
        scale: bool = True,
        shift: bool = True,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = [normalized_shape]
        self._normalized_shape = [int(n) for n in normalized_shape]
        self._scale = scale
        self._shift = shift
        self._epsilon = epsilon
        self._param_attr = param_attr
        self._bias_attr = bias_attr
        self._act = act
        self._dtype = dtype
        shape = [math.prod(self._normalized_shape)]
        self.weight = self.bias = None
        if scale:
            self.weight = self.create_parameter(
                attr=param_attr, shape=shape, dtype=dtype, default_initializer=Constant(1.0)
            )
        elif param_attr:
            logging.warning("LayerNorm: param_attr has no meaning with scale=False")
        if shift:
            assert bias_attr is not False
            self.bias = self.create_parameter(attr=bias_attr, shape=shape, dtype=dtype, is_bias=True)
        elif bias_attr:
            logging.warning("LayerNorm: bias_attr has no meaning with shift=False")

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The normalized input; ValueError if its last dimensions are not `normalized_shape`."""
        out = F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)
        return activated(out, self._act)


class GroupNorm(Layer):
    """Group normalization over groups of channels, followed by `act`.

    Args:
        channels, groups: numbers of channels and groups; groups divides channels (ValueError in `forward`).
        epsilon: added to the variance.
        param_attr, bias_attr: ParamAttr or equivalent of scale and shift per channel; False: no such parameter.
        act: name of an activation operator.
        data_layout: only "NCHW" (ValueError).
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.GroupNorm(channels=4, groups=2)(paddle.ones([1, 4, 2, 2])).shape
        [1, 4, 2, 2]
    """

    def __init__(
        self,
        channels: int,
        groups: int,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        data_layout: str = "NCHW",
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        if data_layout != "NCHW":
            raise ValueError("unsupported data layout:" + data_layout)
        self._groups, self._epsilon, self._act, self._dtype = groups, epsilon, act, dtype
        one = Constant(1.0)
        self.weight = self.create_parameter([channels], param_attr or False, dtype, default_initializer=one)
        self.bias = self.create_parameter([channels], bias_attr or False, dtype, is_bias=True)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The normalized input."""
        out = _ops.group_norm(input, self.weight, self.bias, epsilon=self._epsilon, groups=self._groups)[0]
        return activated(out, self._act)
