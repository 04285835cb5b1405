"""Layers of dygraph mode as Programs for export."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._basics import mode
from paddle._programs.variable import Variable
from paddle.jit.static_function import StaticFunction
from paddle.jit.translated_layer import TranslatedLayer
from paddle.jit.wrapped import unwrap_decorators
from paddle.nn.layer.layers import Layer

__all__ = ["program_of_layer"]

#: a Program, names to feed, names to fetch, values of persistable variables
_Interface = tuple[Any, list[str], list[str], Callable[[str], np.ndarray | None]]


@contextlib.contextmanager
def _in_eval_mode(layer: Any) -> Iterator[None]:
    """The layer and its sublayers in eval mode, then as before."""
    layers = [layer, *layer.sublayers()] if isinstance(layer, Layer) else []
    before = [each.training for each in layers]
    for each in layers:
        each.training = False
    try:
        yield
    finally:
        for each, training in zip(layers, before, strict=True):
            each.training = training


@contextlib.contextmanager
def _without_gradients() -> Iterator[None]:
    before = _core.set_grad_enabled(False)
    try:
        yield
    finally:
        _core.set_grad_enabled(before)


def _arguments(former: StaticFunction | None, input_spec: Any) -> tuple[list, dict]:
    """Specs of the arguments: the given ones, the decorator's, or those of the latest call."""
    if input_spec is not None:
        if not isinstance(input_spec, (list, tuple)):
            raise TypeError(f"paddle.onnx.export: input_spec must be a list or tuple, got {type(input_spec).__name__}")
        return list(input_spec), {}
    if former is not None and former.input_spec is not None:
        return list(former.input_spec), {}
    if former is not None and len(former.program_cache):
        key = former.program_cache.last()[0]
        return list(key.input_args_with_spec), dict(key.input_kwargs_with_spec)
    return [], {}


def _chosen(former: StaticFunction | None, outputs: list[Variable], output_spec: Any) -> list[Variable]:
    """The outputs that `output_spec` names: results of calls of the function that to_static made."""
    if output_spec is None:
        return outputs
    known = {var.name: i for i, var in enumerate(outputs)}
    if former is not None:
        known |= former.program_cache.output_places()
    found = []
    for each in output_spec if isinstance(output_spec, (list, tuple)) else [output_spec]:
        name = getattr(each, "name", each)
        if name not in known:
            raise ValueError(
                f"paddle.onnx.export: output_spec holds {name!r}, which is no result of a call of the layer: "
                f"the layer has to be converted by paddle.jit.to_static and called; its results are {sorted(known)}"
            )
        found.append(outputs[known[name]])
    return found


def _values(names: list[str], tensors: list[Any]) -> Callable[[str], np.ndarray | None]:
    """The elements of Tensors by the names of their variables."""
    held = dict(zip(names, tensors, strict=True))

    def parameter(name: str) -> np.ndarray | None:
        tensor = held.get(name)
        return None if tensor is None else np.array(tensor.value().get_tensor())

    return parameter


def _of_loaded(layer: TranslatedLayer, output_spec: Any) -> _Interface:
    """The Program of a Layer that `jit.load` made; its inputs are those of the saved model."""
    loaded = layer._loaded("forward")
    fetches = [var.name for var in _chosen(None, list(loaded.outputs), output_spec)]
    parameter = _values(loaded.names, layer._tensors(loaded))
    return loaded.program, [var.name for var in loaded.inputs], fetches, parameter


def program_of_layer(layer: Any, input_spec: Any, output_spec: Any) -> _Interface:
    """The Program of a layer in eval mode: Program, names to feed, names to fetch, values of its parameters.

    Args:
        layer (Layer|StaticFunction|callable): what is called.
        input_spec (list, optional): InputSpecs or Tensors.
        output_spec (list, optional): results of calls, or Variables.

    Raises:
        TypeError: for another layer or spec. ValueError: for unknown outputs.
    """
    if mode.in_static_mode():
        raise ValueError("paddle.onnx.export: a layer is exported in dygraph mode: call paddle.disable_static() first")
    if isinstance(layer, TranslatedLayer):
        return _of_loaded(layer, output_spec)
    forward = layer.forward if isinstance(layer, Layer) else layer
    if not callable(forward):
        raise TypeError(
            f"paddle.onnx.export: layer must be a Layer, a function or a Program, got {type(layer).__name__}"
        )
    decorators, inner = unwrap_decorators(forward)
    former = next((each for each in decorators if isinstance(each, StaticFunction)), None)
    owner = layer if isinstance(layer, Layer) else getattr(inner, "__self__", None)
    args, kwargs = _arguments(former, input_spec)
    with _in_eval_mode(owner), _without_gradients():
        concrete = StaticFunction(inner).get_concrete_program(*args, **kwargs)[0]
    outputs = concrete.output_variables("paddle.onnx.export")
    if not outputs:
        raise ValueError("paddle.onnx.export: the layer returns no Tensor")
    builder = concrete.builder
    assert builder is not None
    fetches = [var.name for var in _chosen(former, outputs, output_spec)]
    parameter = _values(builder.names, builder.tensors)
    return concrete.main_program, [var.name for var in concrete.feeds()], fetches, parameter
