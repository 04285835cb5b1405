"""summary: prints a table of a network's layers."""

from __future__ import annotations

import contextlib
import math
import numbers
import warnings
from collections.abc import Iterator
from typing import Any

import paddle._core as _core
from paddle._basics.mode import in_static_mode
from paddle._dispatch.dygraph import no_grad_
from paddle._programs.variable import Variable
from paddle.jit import ProgramTranslator
from paddle.nn import Layer, LayerList, Sequential
from paddle.static import InputSpec
from paddle.tensor import cast, rand

__all__ = ["summary"]

_MIB = 1024.0**2


def _is_shape(value: Any) -> bool:
    return all(not isinstance(n, (list, tuple, InputSpec)) for n in value)


def _sizes(shape: Any) -> tuple[int, ...]:
    """A shape with 1 for the batch size, which may be None or -1."""
    unknown = [n for n in shape if n is None or n == -1]
    if len(unknown) > 1:
        raise ValueError(f"summary: only one size, the batch size, may be None or -1, got {tuple(shape)!s:.200}")
    for n in shape:
        if n is not None and not isinstance(n, numbers.Integral):
            raise TypeError(f"summary: sizes must be ints, got {n!r:.200} in {tuple(shape)!s:.200}")
        if n is not None and n != -1 and n <= 0:
            raise ValueError(f"summary: sizes must be greater than zero, got {tuple(shape)!s:.200}")
    return tuple(1 if n is None or n == -1 else int(n) for n in shape)


def _shapes(value: Any) -> Any:
    """The shapes of all inputs, nested like the argument: tuples of sizes in lists."""
    if isinstance(value, numbers.Integral):
        return _sizes((value,))
    if isinstance(value, InputSpec):
        return _sizes(value.shape)
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"summary: input_size must be a shape, an InputSpec or a list of them, got {type(value)}")
    return _sizes(value) if _is_shape(value) else [_shapes(v) for v in value]


def _inputs(shapes: Any, dtypes: Any) -> Any:
    """Random tensors of the given shapes."""
    if isinstance(shapes, tuple):
        dtype = dtypes[0] if isinstance(dtypes, (list, tuple)) else dtypes
        return cast(rand(list(shapes)), dtype or "float32")
    each = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(shapes)
    return [_inputs(s, d) for s, d in zip(shapes, each, strict=True)]


def _elements(shapes: Any) -> int:
    """The number of elements of all shapes nested in `shapes`."""
    if all(isinstance(n, numbers.Integral) for n in shapes):
        return math.prod(shapes)
    return sum(_elements(s) for s in shapes)


def _shape_of(value: Any) -> Any:
    if isinstance(value, (_core.Tensor, Variable)):
        return list(value.shape)
    if isinstance(value, dict):
        return [_shape_of(v) for v in value.values()]
    return [_shape_of(v) for v in value] if isinstance(value, (list, tuple)) else []


class _Row:
    """The row of a layer in the table."""

    def __init__(self, layer: Layer, inputs: Any, outputs: Any) -> None:
        self.inputs = _shape_of(inputs)
        self.outputs = _shape_of(outputs)
        own = [p for p in layer._parameters.values() if p is not None]
        buffers = [
            b
            for name, b in layer._buffers.items()
            if b is not None and name not in layer._non_persistable_buffer_names_set
        ]
        self.params = sum(math.prod(p.shape) for p in [*own, *buffers])
        self.trainable = sum(math.prod(p.shape) for p in own if getattr(p, "trainable", not p.stop_gradient))


@contextlib.contextmanager
def untranslated() -> Iterator[None]:
    """Context in which functions of to_static run in dygraph mode: a Program that is there calls no hooks of layers."""
    translator = ProgramTranslator.get_instance()
    before, translator.enable_to_static = translator.enable_to_static, False
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "to_static has no effect")
            yield
    finally:
        translator.enable_to_static = before


@contextlib.contextmanager
def _watched(net: Layer) -> Iterator[dict[str, _Row]]:
    """Context in which layer calls add rows."""
    rows: dict[str, _Row] = {}

    def note(layer: Layer, inputs: Any, outputs: Any) -> None:
        last = layer.full_name().rpartition("_")[2]
        number = int(last) + 1 if last.isdigit() else len(rows) + 1
        rows[f"{type(layer).__name__}-{number}"] = _Row(layer, inputs, outputs)

    layers = [each for each in net.sublayers() if not isinstance(each, (Sequential, LayerList))]
    if not net.sublayers() or net._parameters:
        layers.append(net)
    hooks = [layer.register_forward_post_hook(note) for layer in layers]
    try:
        yield rows
    finally:
        for hook in hooks:
            hook.remove()


def _text(rows: dict[str, _Row], input_elements: int) -> str:
    cells = [(key, str(r.inputs), str(r.outputs), f"{r.params:,}") for key, r in rows.items()]
    widths = [max([least, *(len(c[i]) for c in cells)]) for i, least in enumerate((15, 20, 20, 15))]
    whole = max(75, sum(widths) + 5)
    head = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
    lines = [" ".join(f"{c:^{w}}" for c, w in zip(row, widths, strict=True)) for row in (head, *cells)]
    params = sum(r.params for r in rows.values())
    trainable = sum(r.trainable for r in rows.values())
    # four bytes per element; outputs are counted twice, for their gradients
    sizes = [4 * input_elements / _MIB, 8 * sum(_elements(r.outputs) for r in rows.values()) / _MIB, 4 * params / _MIB]
    return "\n".join(
        [
            "-" * whole,
            lines[0],
            "=" * whole,
            *lines[1:],
            "=" * whole,
            f"Total params: {params:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {params - trainable:,}",
            "-" * whole,
            f"Input size (MB): {sizes[0]:.2f}",
            f"Forward/backward pass size (MB): {sizes[1]:.2f}",
            f"Params size (MB): {sizes[2]:.2f}",
            f"Estimated Total Size (MB): {sum(sizes):.2f}",
            "-" * whole,
            "",
        ]
    )


@no_grad_()
def summary(net: Layer, input_size: Any, dtypes: Any = None) -> dict[str, int]:
    """Runs a network on random inputs and prints a table of its layers.

    Args:
        net (Layer): the network.
        input_size (tuple|InputSpec|list): the shape of the input, or a list of shapes. The batch size may be None or
            -1.
        dtypes (str|list, optional): dtypes of the inputs; float32 when None.

    Returns:
        dict: "total_params" and "trainable_params".

    Raises:
        ValueError: for several unknown sizes, or one that is not positive. TypeError: for a size that is not an int.

    Examples:
        >>> import paddle
        >>> info = paddle.summary(paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.ReLU()), (None, 4))
        ---...
        Layer (type)         Input Shape          Output Shape         Param #
        ===...
           Linear-...         [[1, 4]]               [1, 3]              15
            ReLU-...          [[1, 3]]               [1, 3]               0
        ===...
        Total params: 15
        ...
        >>> info
        {'total_params': 15, 'trainable_params': 15}
    """
    shapes = _shapes(input_size)
    if isinstance(shapes, tuple):
        shapes = [shapes]
    if in_static_mode():
        warnings.warn("summary: in static mode the table may be incomplete", stacklevel=2)
    layers = [net, *net.sublayers()]
    training = [layer.training for layer in layers]
    net.eval()
    try:
        with _watched(net) as rows, untranslated():
            net(*_inputs(shapes, dtypes))
    finally:
        for layer, was in zip(layers, training, strict=True):
            layer.training = was
    print(_text(rows, _elements(shapes)))
    return {
        "total_params": sum(r.params for r in rows.values()),
        "trainable_params": sum(r.trainable for r in rows.values()),
    }
