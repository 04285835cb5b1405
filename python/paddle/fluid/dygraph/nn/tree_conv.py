"""fluid.dygraph.TreeConv: convolution over trees."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle.nn import Layer

from .conv import activated

__all__ = ["TreeConv"]


class TreeConv(Layer):
    """A convolution over trees: `fluid.contrib.layers.tree_conv` as a Layer.

    Args:
        feature_size: number of features of a node.
        output_size: outputs of each filter.
        num_filters: number of filters.
        max_depth: levels that a node reads, including its own.
        act: name of an activation, or None.
        param_attr, bias_attr: ParamAttrs of `weight` and `bias` [num_filters]; bias_attr None or False: no
            bias. It is added along the nodes, as in Paddle: num_filters must be 1 or the number of nodes.
        name: of the layer.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> conv = paddle.fluid.dygraph.TreeConv(feature_size=5, output_size=6, num_filters=1, max_depth=2)
        >>> edges = paddle.to_tensor([[[1, 2], [1, 3], [0, 0]]], dtype="int32")
        >>> conv(paddle.ones([1, 4, 5]), edges).shape
        [1, 4, 6, 1]
    """

    def __init__(
        self,
        feature_size: int,
        output_size: int,
        num_filters: int = 1,
        max_depth: int = 2,
        act: str | None = "tanh",
        param_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        self._name, self._act, self._dtype, self._max_depth = name, act, dtype, max_depth
        self.bias = None
        if bias_attr:
            self.bias = self.create_parameter(attr=bias_attr, shape=[num_filters], dtype=dtype, is_bias=True)
        shape = [feature_size, 3, output_size, num_filters]
        self.weight = self.create_parameter(attr=param_attr, shape=shape, dtype=dtype, is_bias=False)

    def forward(self, nodes_vector: Any, edge_set: Any) -> Any:
        """[N, nodes, output_size, num_filters]."""
        out = _ops.tree_conv(nodes_vector, edge_set, self.weight, max_depth=self._max_depth)
        if self.bias is not None:
            out = _ops.elementwise_add(out, self.bias, axis=1)
        return activated(out, self._act)
