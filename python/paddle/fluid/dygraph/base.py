"""fluid.dygraph.base: modes, gradients and to_variable under the names of 1.x."""

from __future__ import annotations

import warnings

import numpy as np

import paddle._core as _core
from paddle._basics.dtypes import convert_dtype
from paddle._basics.mode import dygraph_only
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
]

# names of 1.8
enable_imperative, disable_imperative = enable_dygraph, disable_dygraph


@dygraph_only
def to_variable(value, name=None, zero_copy=None, dtype=None):
    """A Tensor with the values of an array, list, number or LoDTensor; a Tensor is returned as it is.

    Args:
        value (numpy.ndarray|Variable|Tensor|LoDTensor|list|tuple|number): the values.
        name (str, optional): the Tensor's name.
        dtype (str, optional): element type of the result.
    """
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
