"""Linear, Bilinear, Embedding, Flatten, dropout layers, CosineSimilarity."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import check_positive
from paddle._basics.mode import in_static_mode
from paddle.nn import functional as F
from paddle.nn.layer.function_layer import FunctionLayer
from paddle.nn.layer.layers import Layer

__all__ = [
    "AlphaDropout",
    "Bilinear",
    "CosineSimilarity",
    "Dropout",
    "Dropout2D",
    "Dropout3D",
    "Embedding",
    "Flatten",
    "Linear",
]


def _and_name(text: str, name: str | None) -> str:
    return f"{text}, name={name}" if name else text


class Linear(Layer):
    """x @ weight + bias.

    Args:
        in_features, out_features: the last dimension of input and output.
        weight_attr: ParamAttr (or a form it accepts) of the weight [in_features, out_features] (default: Xavier).
        bias_attr: of the bias [out_features] (default: zeros); False for no bias.
        name: a name for the outputs.

    Examples:
        >>> import paddle
        >>> paddle.nn.Linear(2, 4)(paddle.ones([3, 2])).shape
        [3, 4]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._dtype = self._helper.get_default_dtype()
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        self.weight = self.create_parameter(
            shape=[in_features, out_features], attr=weight_attr, dtype=self._dtype, is_bias=False
        )
        self.bias = self.create_parameter(shape=[out_features], attr=bias_attr, dtype=self._dtype, is_bias=True)
        self.name = name

    def forward(self, input: Any) -> Any:  # noqa: A002
        """`input` [..., in_features] to [..., out_features]."""
        own = self._parameters
        weight, bias = own.get("weight"), own.get("bias")
        if weight is None or bias is None:
            # An attribute that is not a parameter (any more) takes the ordinary lookup.
            weight, bias = self.weight, self.bias
        return F.linear(input, weight, bias, self.name)

    def extra_repr(self) -> str:
        """Sizes and element type."""
        rows, columns = self.weight.shape
        return _and_name(f"in_features={rows}, out_features={columns}, dtype={self._dtype}", self.name)


class Embedding(Layer):
    """Lookup table: ids to rows.

    Args:
        num_embeddings, embedding_dim: rows and columns of the table; ValueError unless positive.
        padding_idx: the row of this id (negative: from the end) is zero and has no gradient; ValueError out of range.
        sparse: whether the gradient of the table holds only the rows looked up.
        weight_attr: ParamAttr (or a form it accepts) of the table (default: Xavier uniform).
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> paddle.nn.Embedding(10, 3)(paddle.to_tensor([[1, 2]])).shape
        [1, 2, 3]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx must be within [-{num_embeddings}, {num_embeddings})")
        self._num_embeddings = num_embeddings
        self._embedding_dim = embedding_dim
        self._sparse = sparse
        self._is_distributed = False
        self._padding_idx = padding_idx
        self._dtype = self._helper.get_default_dtype()
        self._size = [num_embeddings, embedding_dim]
        self._weight_attr = weight_attr
        self._remote_prefetch = False
        self._name = name
        self.weight = self.create_parameter(attr=weight_attr, shape=self._size, dtype=self._dtype, is_bias=False)
        if padding_idx is not None and not in_static_mode():
            self._clear_row(padding_idx % num_embeddings)

    def _clear_row(self, row: int) -> None:
        values = self.weight.numpy()
        values[row] = 0.0
        self.weight.set_value(values)

    def forward(self, x: Any) -> Any:
        """Ids of any shape to rows: x.shape + [embedding_dim]."""
        return F.embedding(x, self.weight, self._padding_idx, self._sparse, self._name)

    def extra_repr(self) -> str:
        """Sizes and options."""
        text = f"{self._num_embeddings}, {self._embedding_dim}"
        if self._padding_idx is not None:
            text += f", padding_idx={self._padding_idx}"
        text += f", sparse={self._sparse}"
        return text if self._name is None else f"{text}, name={self._name}"


class Flatten(Layer):
    """Merges the dimensions from `start_axis` to `stop_axis` into one.

    Examples:
        >>> import paddle
        >>> paddle.nn.Flatten()(paddle.ones([5, 2, 3, 4])).shape
        [5, 24]
    """

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis = start_axis
        self.stop_axis = stop_axis

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The flattened input; ValueError for axes out of range."""
        return _ops.flatten_contiguous_range(input, start_axis=self.start_axis, stop_axis=self.stop_axis)


class _Dropout(FunctionLayer):
    _prefix = ""

    def forward(self, input: Any) -> Any:  # noqa: A002
        """`input` with elements dropped in training mode."""
        return self._function(input, training=self.training, **self._arguments)


class Dropout(_Dropout):
    """Sets elements to zero with the probability `p` in training mode; the arguments of `functional.dropout`."""

    _function = staticmethod(F.dropout)

    def __init__(
        self, p: float = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None
    ) -> None:
        super().__init__(p=p, axis=axis, mode=mode, name=name)


class Dropout2D(_Dropout):
    """Sets whole channels of [N, C, H, W] to zero with the probability `p` in training mode."""

    _function = staticmethod(F.dropout2d)

    def __init__(self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(p=p, data_format=data_format, name=name)


class Dropout3D(_Dropout):
    """Sets whole channels of [N, C, D, H, W] to zero with the probability `p` in training mode."""

    _function = staticmethod(F.dropout3d)

    def __init__(self, p: float = 0.5, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(p=p, data_format=data_format, name=name)


class AlphaDropout(_Dropout):
    """Dropout that preserves mean and variance, for networks with SELU: `functional.alpha_dropout` as a layer."""

    _function = staticmethod(F.alpha_dropout)

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__(p=p, name=name)


class CosineSimilarity(FunctionLayer):
    """The cosine of the angle between vectors along `axis`: `functional.cosine_similarity` as a layer."""

    _function = staticmethod(F.cosine_similarity)

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        super().__init__(axis=axis, eps=eps)

    def forward(self, x1: Any, x2: Any) -> Any:
        """The cosines."""
        return self._function(x1, x2, **self._arguments)


class Bilinear(Layer):
    """x1 W[k] x2 + b[k] with learned weight and bias: `functional.bilinear` as a layer.

    Args:
        in1_features, in2_features, out_features: the last dimensions of the inputs and the output.
        weight_attr: ParamAttr (or a form it accepts) of the weight [out_features, in1_features, in2_features].
        bias_attr: of the bias [1, out_features] (default: zeros); False for no bias.
        name: a name for the outputs.

    Examples:
        >>> import paddle
        >>> paddle.nn.Bilinear(5, 4, 10)(paddle.ones([3, 5]), paddle.ones([3, 4])).shape
        [3, 10]
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        self._name = name
        self._in1_features, self._in2_features, self._out_features = in1_features, in2_features, out_features
        self._dtype = self._helper.get_default_dtype()
        self.weight = self.create_parameter(
            shape=[out_features, in1_features, in2_features], attr=weight_attr, dtype=self._dtype, is_bias=False
        )
        self.bias = self.create_parameter(shape=[1, out_features], attr=bias_attr, dtype=self._dtype, is_bias=True)

    def forward(self, x1: Any, x2: Any) -> Any:
        """`x1` [batch, in1_features] and `x2` [batch, in2_features] to [batch, out_features]."""
        return F.bilinear(x1, x2, self.weight, self.bias, self._name)

    def extra_repr(self) -> str:
        """Sizes and data type."""
        text = f"in1_features={self._in1_features}, in2_features={self._in2_features}"
        return _and_name(f"{text}, out_features={self._out_features}, dtype={self._dtype}", self._name)
