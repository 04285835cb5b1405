"""flops: counts the floating-point operations of a dygraph network."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle import nn
from paddle._dispatch.dygraph import no_grad_
from paddle.nn import Layer
from paddle.static import Program
from paddle.tensor import randn

from .model_summary import untranslated
from .static_flops import static_flops
from .table import framed

__all__ = ["flops"]

_TOTALS = ("total_ops", "total_params", "input_shape", "output_shape")


def _elements(tensor: Any) -> int:
    return math.prod(tensor.shape)


def _conv(layer: Any, x: Any, y: Any) -> None:
    window = math.prod(layer.weight.shape[2:])
    each = x[0].shape[1] / layer._groups * window + (layer.bias is not None)
    layer.total_ops += int(_elements(y) * each)


def _of_inputs(factor: int) -> Callable[[Any, Any, Any], None]:
    def count(layer: Any, x: Any, y: Any) -> None:
        layer.total_ops += factor * _elements(x[0])

    return count


def _linear(layer: Any, x: Any, y: Any) -> None:
    layer.total_ops += layer.weight.shape[0] * _elements(y)


def _pool(layer: Any, x: Any, y: Any) -> None:
    layer.total_ops += _elements(y)


def _adaptive_pool(layer: Any, x: Any, y: Any) -> None:
    window = np.array(x[0].shape[2:]) // np.array(y.shape[2:])
    layer.total_ops += (int(window.prod()) + 1) * _elements(y)


_COUNTS: dict[str, Callable[[Any, Any, Any], None]] = {
    "Conv1D Conv2D Conv3D Conv1DTranspose Conv2DTranspose Conv3DTranspose": _conv,
    "BatchNorm BatchNorm2D": _of_inputs(2),
    "ReLU ReLU6 Dropout": _of_inputs(0),
    "LeakyReLU": _of_inputs(1),
    "Linear": _linear,
    "AvgPool1D AvgPool2D AvgPool3D": _pool,
    "AdaptiveAvgPool1D AdaptiveAvgPool2D AdaptiveAvgPool3D": _adaptive_pool,
}


def _by_class() -> dict[type, Callable[[Any, Any, Any], None]]:
    return {getattr(nn, name): count for names, count in _COUNTS.items() for name in names.split() if hasattr(nn, name)}


def flops(net: Any, input_size: Any, custom_ops: Any = None, print_detail: bool = False) -> int:
    """Counts the floating-point operations of a network for one input, and prints them.

    Args:
        net (Layer|Program): a dygraph network, which is run on a random input, or a Program.
        input_size (list): shape of the input, with batch size 1.
        custom_ops (dict, optional): maps a layer class to a function of (layer, inputs, output) that adds to
            ``layer.total_ops``.
        print_detail (bool): print a row for each layer.

    Returns:
        int: the number of operations; -1 (with a warning) for a `net` of another type.

    Examples:
        >>> import paddle
        >>> paddle.flops(paddle.nn.Sequential(paddle.nn.Linear(4, 3)), [1, 4])
        <class 'paddle.nn.layer.common.Linear'>'s flops has been counted
        Total Flops: 12     Total Params: 15
        12
    """
    if isinstance(net, Program):
        return static_flops(net, print_detail=print_detail)
    if not isinstance(net, Layer):
        warnings.warn("Your model must be an instance of paddle.nn.Layer or paddle.static.Program.", stacklevel=2)
        return -1
    return _layer_flops(net, randn(input_size), custom_ops or {}, print_detail)


def _counter(layer: Layer, custom: dict[type, Any], known: dict[type, Any], reported: set[type]) -> Any:
    """The counting function of a layer; it is reported once per class."""
    kind = type(layer)
    if kind in custom:
        count, text = custom[kind], f"Customize Function has been applied to {kind}"
    elif kind in known:
        count, text = known[kind], f"{kind}'s flops has been counted"
    else:
        count, text = None, f"Cannot find suitable count function for {kind}. Treat it as zero FLOPs."
    if kind not in reported:
        reported.add(kind)
        print(text)
    return count


def _note(layer: Any, x: Any, y: Any) -> None:
    layer.__dict__["total_params"] = sum(_elements(p) for p in [*layer.parameters(), *layer.buffers()])
    layer.__dict__["input_shape"] = list(x[0].shape)
    layer.__dict__["output_shape"] = list((y[0] if isinstance(y, (list, tuple)) else y).shape)


def _layer_flops(net: Layer, inputs: Any, custom: dict[type, Any], print_detail: bool) -> int:
    known, reported = _by_class(), set[type]()
    leaves = [(name, layer) for name, layer in net.named_sublayers(include_self=True) if not layer.sublayers()]
    hooks = []
    everyone = [net, *net.sublayers()]
    training = [layer.training for layer in everyone]
    net.eval()
    try:
        for _, layer in leaves:
            layer.__dict__["total_ops"] = 0
            count = _counter(layer, custom, known, reported)
            if count is not None:
                hooks.append(layer.register_forward_post_hook(count))
            hooks.append(layer.register_forward_post_hook(_note))
        with no_grad_(), untranslated():
            net(inputs)
        called: list[Any] = [layer for _, layer in leaves if "total_params" in layer.__dict__]
        rows = [(c.full_name(), c.input_shape, c.output_shape, int(c.total_params), int(c.total_ops)) for c in called]
    finally:
        for hook in hooks:
            hook.remove()
        for _, layer in leaves:
            for name in _TOTALS:
                layer.__dict__.pop(name, None)
        for layer, was in zip(everyone, training, strict=True):
            layer.training = was
    if print_detail:
        print(framed(["Layer Name", "Input Shape", "Output Shape", "Params", "Flops"], rows))
    total = sum(row[4] for row in rows)
    print(f"Total Flops: {total}     Total Params: {sum(row[3] for row in rows)}")
    return total
