"""Layers of `paddle.nn` in Paddle 2.1 to 2.6."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import paddle
from paddle._later import functional
from paddle.nn.layer.function_layer import FunctionLayer, UnaryFunctionLayer
from paddle.nn.layer.layers import Layer

__all__: list[str] = []


class Identity(Layer):
    """Returns its input; arguments are ignored.

    Examples:
        >>> import paddle
        >>> paddle.nn.Identity()(paddle.ones([1])).item()
        1.0
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:  # noqa: A002
        """`input`."""
        return input


def _layer(name: str, base: type[FunctionLayer], function: Any, *required: str, **defaults: Any) -> Any:
    """The layer of a function: `__init__` takes `required`, then `defaults`, and passes them by name to each call."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, kind) for n in required]
    parameters += [inspect.Parameter(n, kind, default=v) for n, v in {**defaults, "name": None}.items()]
    signature = inspect.Signature(parameters)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        base.__init__(self, **bound.arguments)

    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", kind), *parameters]
    )
    summary = (function.__doc__ or "").splitlines()[0]
    doc = f"`paddle.nn.functional.{function.__name__}` as a layer: {summary}"
    return type(
        name,
        (base,),
        {"__init__": __init__, "_function": staticmethod(function), "__doc__": doc, "__module__": __name__},
    )


Silu = _layer("Silu", UnaryFunctionLayer, functional.silu)
Mish = _layer("Mish", UnaryFunctionLayer, functional.mish)
GLU = _layer("GLU", UnaryFunctionLayer, functional.glu, axis=-1)
CELU = _layer("CELU", UnaryFunctionLayer, functional.celu, alpha=1.0)
ChannelShuffle = _layer("ChannelShuffle", UnaryFunctionLayer, functional.channel_shuffle, "groups", data_format="NCHW")
PixelUnshuffle = _layer(
    "PixelUnshuffle", UnaryFunctionLayer, functional.pixel_unshuffle, "downscale_factor", data_format="NCHW"
)
ZeroPad2D = _layer("ZeroPad2D", UnaryFunctionLayer, functional.zeropad2d, "padding", data_format="NCHW")
Fold = _layer(
    "Fold", UnaryFunctionLayer, functional.fold, "output_sizes", "kernel_sizes", dilations=1, paddings=0, strides=1
)
Unfold = _layer(
    "Unfold", UnaryFunctionLayer, paddle.nn.functional.unfold, "kernel_sizes", dilations=1, paddings=0, strides=1
)


class _Unpooling(FunctionLayer):
    def forward(self, x: Any, indices: Any) -> Any:
        """`x` at the places `indices`, zeros elsewhere."""
        return self._function(x, indices, **self._arguments)


MaxUnPool1D, MaxUnPool2D, MaxUnPool3D = (
    _layer(
        f"MaxUnPool{n}D",
        _Unpooling,
        getattr(functional, f"max_unpool{n}d"),
        "kernel_size",
        stride=None,
        padding=0,
        data_format=layout,
        output_size=None,
    )
    for n, layout in ((1, "NCL"), (2, "NCHW"), (3, "NCDHW"))
)
Unflatten = _layer("Unflatten", UnaryFunctionLayer, paddle.unflatten, "axis", "shape")


class RReLU(UnaryFunctionLayer):
    """`paddle.nn.functional.rrelu` as a layer: random slopes while training, their mean afterwards.

    Examples:
        >>> import paddle
        >>> paddle.nn.RReLU(0.5, 0.5)(paddle.to_tensor([-1.0])).item()
        -0.5
    """

    _function = staticmethod(functional.rrelu)

    def __init__(self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, name: str | None = None) -> None:
        super().__init__(lower=lower, upper=upper, name=name)

    def forward(self, x: Any) -> Any:
        """The activation of `x`."""
        return functional.rrelu(x, training=self.training, **self._arguments)


class Softmax2D(Layer):
    """The softmax over the channels of images [N, C, H, W] or [C, H, W].

    Examples:
        >>> import paddle
        >>> paddle.nn.Softmax2D()(paddle.ones([1, 2, 1, 1])).numpy().ravel().tolist()
        [0.5, 0.5]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name

    def forward(self, x: Any) -> Any:
        """The softmax of `x`."""
        if len(x.shape) not in (3, 4):
            raise ValueError(f"Softmax2D: x must have 3 or 4 dimensions, got {len(x.shape)}")
        return paddle.nn.functional.softmax(x, axis=-3, name=self._name)


class _Loss(FunctionLayer):
    """Base of loss layers: forward's arguments, then those of `__init__` by name."""

    def forward(self, *inputs: Any) -> Any:
        """The loss of the inputs, in the order of the function's arguments."""
        return self._function(*inputs, **self._arguments)


HingeEmbeddingLoss = _layer("HingeEmbeddingLoss", _Loss, functional.hinge_embedding_loss, margin=1.0, reduction="mean")
CosineEmbeddingLoss = _layer("CosineEmbeddingLoss", _Loss, functional.cosine_embedding_loss, margin=0, reduction="mean")
TripletMarginLoss = _layer(
    "TripletMarginLoss",
    _Loss,
    functional.triplet_margin_loss,
    margin=1.0,
    p=2.0,
    epsilon=1e-6,
    swap=False,
    reduction="mean",
)
TripletMarginWithDistanceLoss = _layer(
    "TripletMarginWithDistanceLoss",
    _Loss,
    functional.triplet_margin_with_distance_loss,
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
)
SoftMarginLoss = _layer("SoftMarginLoss", _Loss, functional.soft_margin_loss, reduction="mean")
MultiLabelSoftMarginLoss = _layer(
    "MultiLabelSoftMarginLoss", _Loss, functional.multi_label_soft_margin_loss, weight=None, reduction="mean"
)
MultiMarginLoss = _layer(
    "MultiMarginLoss", _Loss, functional.multi_margin_loss, p=1, margin=1.0, weight=None, reduction="mean"
)
PoissonNLLLoss = _layer(
    "PoissonNLLLoss", _Loss, functional.poisson_nll_loss, log_input=True, full=False, epsilon=1e-8, reduction="mean"
)
GaussianNLLLoss = _layer(
    "GaussianNLLLoss", _Loss, functional.gaussian_nll_loss, full=False, epsilon=1e-6, reduction="mean"
)


class LayerDict(Layer):
    """An ordered dictionary of sublayers.

    Args:
        sublayers (mapping|iterable of pairs, optional): the first layers.

    Examples:
        >>> import paddle
        >>> layers = paddle.nn.LayerDict({"a": paddle.nn.ReLU()})
        >>> layers["b"] = paddle.nn.Linear(2, 3)
        >>> list(layers), len(layers.parameters())
        (['a', 'b'], 2)
    """

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def __getitem__(self, key: str) -> Layer:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        """Removes all layers."""
        self._sub_layers.clear()

    def pop(self, key: str) -> Layer:
        """Removes and returns a layer."""
        return self._sub_layers.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._sub_layers.keys()

    def values(self) -> Iterable[Layer]:
        """The layers."""
        return self._sub_layers.values()

    def items(self) -> Iterable[tuple[str, Layer]]:
        """The pairs."""
        return self._sub_layers.items()

    def update(self, sublayers: Any) -> None:
        """Adds the layers of a mapping or of pairs; a known name's layer is replaced.

        Raises:
            TypeError: for anything else.
        """
        if not isinstance(sublayers, Iterable):
            raise TypeError(f"LayerDict.update: sublayers must be a mapping or pairs, got {type(sublayers).__name__}")
        pairs = sublayers.items() if isinstance(sublayers, (Mapping, LayerDict)) else sublayers
        for key, layer in pairs:
            self[key] = layer
