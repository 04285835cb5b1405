"""fluid.dygraph.base: modes, gradients and to_variable under the names of 1.x."""

from __future__ import annotations

import contextlib
import functools
import warnings

import numpy as np

import paddle._core as _core
from paddle._basics.dtypes import convert_dtype
from paddle._basics.mode import _dygraph_guard, _dygraph_tracer, dygraph_only, in_static_mode
from paddle._dispatch.dygraph import (
    _default_tracer,
    disable_dygraph,
    enable_dygraph,
    enabled,
    grad,
    guard,
    no_grad,
    no_grad_,
)
from paddle._programs import building
from paddle._programs.variable import Variable

__all__ = [
    "no_grad",
    "no_grad_",
    "grad",
    "guard",
    "enable_dygraph",
    "disable_dygraph",
    "enabled",
    "to_variable",
    "enable_imperative",
    "disable_imperative",
    "BackwardStrategy",
]

# names of 1.8
enable_imperative, disable_imperative = enable_dygraph, disable_dygraph


def to_variable(value, name=None, zero_copy=None, dtype=None):
    """A Tensor with the values of an array, list, number or LoDTensor; a Tensor is returned as it is.

    Args:
        value (numpy.ndarray|Variable|Tensor|LoDTensor|list|tuple|number): the values.
        name (str, optional): the Tensor's name.
        dtype (str, optional): element type of the result.
    """
    if building.current is not None and in_static_mode():
        return building.current.to_tensor(value, dtype)
    return _to_variable(value, name, zero_copy, dtype)


def _convert(value, name, zero_copy, dtype):
    kinds = (list, tuple, np.ndarray, _core.Tensor, Variable, _core.LoDTensor, int, float, complex, np.generic)
    if not isinstance(value, kinds):
        raise TypeError(f"to_variable: value must be {kinds}, got {type(value)}")
    if isinstance(value, (_core.Tensor, Variable)):
        return value
    if zero_copy:
        warnings.warn("Currently, zero_copy is not supported, and it will be discarded.", stacklevel=2)
    array = np.asarray([value] if np.isscalar(value) else value)
    if dtype is not None and convert_dtype(dtype) != array.dtype.name:
        array = array.astype(convert_dtype(dtype))
    tensor = _core.tensor_from_array(array, True)
    tensor.stop_gradient = True
    if name:
        tensor.name = name
    return tensor


_convert.__name__ = "to_variable"  # the name in dygraph_only's error
_to_variable = dygraph_only(_convert)


def switch_to_static_graph(func):
    """A decorator: the function runs in static mode.

    Args:
        func (callable): the function.
    """

    @functools.wraps(func)
    def run(*args, **kwargs):
        with _dygraph_guard(None):
            return func(*args, **kwargs)

    return run


_switch_to_static_graph_ = switch_to_static_graph


@contextlib.contextmanager
def program_desc_tracing_guard(enable):
    """Records the eager calls of the ``with`` block, for `create_program_desc` of the object that the Tracer's
    `_get_program_desc_tracer` returns.

    Args:
        enable (bool): whether to record. TracedLayer.trace records by itself.

    Raises:
        RuntimeError: if calls are recorded already.
    """
    tracer = _dygraph_tracer()
    if tracer is None:
        yield
        return
    former = getattr(tracer, "_enable_program_desc_tracing", False)
    tracer._enable_program_desc_tracing = enable
    if enable:
        _core.start_trace()
    try:
        yield
    finally:
        tracer._enable_program_desc_tracing = former
        if enable:
            _core.stop_trace([])


class BackwardStrategy:
    """How gradients of a Tensor with several uses are summed: an argument of `backward` in 1.x.

    Attributes:
        sort_sum_gradient (bool): sum in the reverse order of the forward pass, as this engine always does.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/dygraph/BackwardStrategy.html

    Examples:
        >>> import paddle.fluid as fluid
        >>> fluid.dygraph.BackwardStrategy().sort_sum_gradient
        False
    """

    def __init__(self):
        self.sort_sum_gradient = False
