"""Operators computed by numpy on the host: a node of the tape in dygraph mode, `py_func` in a Program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import paddle
import paddle._core as _core
from paddle._basics.mode import in_static_mode
from paddle._dispatch.dygraph import no_grad_
from paddle.nn.layer_helper import LayerHelper

__all__: list[str] = []


class Host(NamedTuple):
    """An operator on arrays.

    `forward(*inputs, **attributes)` returns a list of arrays. `backward(inputs, outputs, grads, **attributes)` returns
    a list of gradients of the inputs (None: no gradient); `grads` has an array for each output. `attributes` are
    hashable. Without `backward` no gradients flow.
    """

    name: str
    forward: Callable[..., list]
    backward: Callable[..., list] | None = None


def call(host: Host, inputs: list, outputs: list[tuple[list[int], str]], **attributes: Any) -> list:
    """Runs a host operator in dygraph mode, or appends it to the Program.

    Args:
        host (Host): the operator.
        inputs (list of Tensor|Variable): its inputs.
        outputs (list): shape (-1 where unknown) and data type of each output.
        attributes: keyword arguments of the functions.

    Returns:
        list of Tensor|Variable: the outputs.
    """
    if in_static_mode():
        return _append(host, inputs, outputs, attributes)
    arrays = [x.numpy() for x in inputs]
    types = [dtype for _, dtype in outputs]
    results = _as_types(host.forward(*arrays, **attributes), types)
    tensors = [_core.tensor_from_array(_filled(a), True) for a in results]
    needs = host.backward is not None and _core.is_grad_enabled() and not all(x.stop_gradient for x in inputs)
    flows = [needs and t[:1] in "fc" for t in types]
    if any(flows):
        flowing = [t for t, flow in zip(tensors, flows, strict=True) if flow]
        _core.record_call(list(inputs), flowing, _Gradient(host, arrays, results, flows, attributes))
    return tensors


def _filled(array: np.ndarray) -> np.ndarray:
    # As all of 2.0, a single value has shape [1].
    return np.ascontiguousarray(array.reshape([1]) if array.ndim == 0 else array)


def _as_types(arrays: list, types: list[str]) -> list:
    return [np.asarray(a).astype(t, copy=False) for a, t in zip(arrays, types, strict=True)]


def _zeros_for_none(grads: Any, outputs: list) -> list:
    return [
        np.zeros_like(out) if g is None else np.asarray(g).reshape(out.shape)
        for g, out in zip(grads, outputs, strict=True)
    ]


def _gradients(host: Host, inputs: list, outputs: list, grads: list, attributes: dict) -> list:
    assert host.backward is not None
    found = host.backward(inputs, outputs, grads, **attributes)
    fitted = []
    for x, g in zip(inputs, found, strict=True):
        if g is not None and np.iscomplexobj(g) and not np.iscomplexobj(x):
            g = g.real
        fitted.append(None if g is None else np.ascontiguousarray(g, dtype=x.dtype).reshape(x.shape))
    return fitted


class _Gradient:
    """The gradients of one call in dygraph mode."""

    def __init__(self, host: Host, inputs: list, outputs: list, flows: list[bool], attributes: dict) -> None:
        self.host, self.inputs, self.outputs, self.flows, self.attributes = host, inputs, outputs, flows, attributes

    def __call__(self, *given: Any) -> list:
        arrived = iter(given)
        grads = [next(arrived) if flow else None for flow in self.flows]
        with no_grad_():
            arrays = _zeros_for_none([None if g is None else g.numpy() for g in grads], self.outputs)
            found = _gradients(self.host, self.inputs, self.outputs, arrays, self.attributes)
            return [None if g is None else _core.tensor_from_array(g, True) for g in found]


@functools.cache
def _functions(host: Host, types: tuple[str, ...], attributes: tuple) -> tuple[int, int]:
    """The numbers of the Python functions of py_func: one pair for all calls with the same attributes."""
    keywords, n = dict(attributes), len(types)

    def forward(*tensors: Any) -> tuple:
        return tuple(_filled(a) for a in _as_types(host.forward(*map(np.array, tensors), **keywords), list(types)))

    def backward(*tensors: Any) -> tuple:
        # Inputs, outputs, gradients of outputs.
        arrays = [None if t is None or not t._is_initialized() else np.array(t) for t in tensors]
        inputs, outputs, grads = arrays[: -2 * n], arrays[-2 * n : -n], arrays[-n:]
        found = _gradients(host, inputs, outputs, _zeros_for_none(grads, outputs), keywords)
        return tuple(np.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))

    register = paddle.static.pyfunc.PyFuncRegistry
    return register(forward).id, register(backward).id if host.backward is not None else -1


def _append(host: Host, inputs: list, outputs: list, attributes: dict) -> list:
    types = tuple(dtype for _, dtype in outputs)
    forward, backward = _functions(host, types, tuple(sorted(attributes.items())))
    helper = LayerHelper(host.name)
    made = []
    for shape, dtype in outputs:
        var = helper.create_variable_for_type_inference(dtype=dtype, stop_gradient=host.backward is None)
        var.desc.set_shape(shape or [1])
        made.append(var)
    numbers = {"forward_callable_id": forward, "backward_callable_id": backward}
    helper.append_op(type="py_func", inputs={"X": list(inputs)}, outputs={"Out": made}, attrs=numbers)
    return made
