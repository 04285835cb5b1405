"""SequenceConv and RowConv of fluid.dygraph.nn: Layers for static Programs."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.mode import in_dygraph_mode, in_static_mode
from paddle.nn import Layer

from .conv import activated

__all__ = ["SequenceConv", "RowConv"]


class SequenceConv(Layer):
    """`fluid.layers.sequence_conv` as a Layer for Programs: dygraph mode has no LoD.

    Args:
        name_scope: prefix of the parameters' names.
        num_filters: the width of the result.
        filter_size: number of steps in a window.
        filter_stride: 1.
        padding: ignored: steps outside of a sequence are zeros.
        bias_attr, param_attr: ParamAttrs of `bias` (False: none) and `weight`, which are created at the first call.
        act: name of an activation, or None.

    Raises:
        AssertionError: in dygraph mode.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 8], "float32", lod_level=1)
        >>> conv = paddle.fluid.dygraph.nn.SequenceConv("conv", num_filters=4)
        >>> conv(x).shape, conv.weight.shape
        ((-1, 4), (24, 4))
    """

    weight: Any
    bias: Any

    def __init__(
        self,
        name_scope: str,
        num_filters: int,
        filter_size: int = 3,
        filter_stride: int = 1,
        padding: bool | None = None,
        bias_attr: Any = None,
        param_attr: Any = None,
        act: str | None = None,
    ) -> None:
        assert in_static_mode(), "SequenceConv is not supported by dynamic graph mode yet!"
        super().__init__(name_scope)
        self._num_filters, self._filter_size, self._filter_stride = num_filters, filter_size, filter_stride
        self._bias_attr, self._param_attr, self._act = bias_attr, param_attr, act

    def _build_once(self, input: Any) -> None:  # type: ignore[override]  # noqa: A002
        shape = [self._filter_size * input.shape[1], self._num_filters]
        self.weight = self.create_parameter(shape, self._param_attr, input.dtype)
        self.bias = self.create_parameter([self._num_filters], self._bias_attr, input.dtype, is_bias=True)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """[steps, num_filters], with the LoD of `input`."""
        out = _ops.sequence_conv(
            input,
            None,
            self.weight,
            contextStride=self._filter_stride,
            contextStart=-(self._filter_size // 2),
            contextLength=self._filter_size,
        )
        if self.bias is not None:
            out = _ops.elementwise_add(out, self.bias, axis=1)
        return activated(out, self._act)


class RowConv(Layer):
    """`fluid.layers.row_conv` as a Layer for Programs: dygraph mode has no LoD.

    Args:
        name_scope: prefix of the parameter's name.
        future_context_size: number of following steps that a step reads.
        param_attr: a ParamAttr of `weight`, [future_context_size + 1, width], which is created at the first call.
        act: name of an activation, or None.

    Raises:
        AssertionError: in dygraph mode.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 16], "float32", lod_level=1)
        >>> conv = paddle.fluid.dygraph.nn.RowConv("conv", future_context_size=2)
        >>> conv(x).shape, conv.weight.shape
        ((-1, 16), (3, 16))
    """

    weight: Any

    def __init__(
        self, name_scope: str, future_context_size: int, param_attr: Any = None, act: str | None = None
    ) -> None:
        assert in_static_mode(), "RowConv is not supported by dynamic graph mode yet!"
        super().__init__(name_scope)
        self._later, self._param_attr, self._act = future_context_size, param_attr, act

    def _build_once(self, input: Any) -> None:  # type: ignore[override]  # noqa: A002
        self.weight = self.create_parameter([self._later + 1, input.shape[1]], self._param_attr, input.dtype)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """A tensor of the shape and LoD of `input`."""
        return activated(_ops.row_conv(input, self.weight), self._act)
