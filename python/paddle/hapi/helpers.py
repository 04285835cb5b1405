"""Functions over the lists of inputs and outputs of a network, which upstream's `paddle.hapi.model` defines."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import paddle._core as core
from paddle import _ops
from paddle._programs.scope import global_scope
from paddle._programs.variable import Variable

__all__: list[str] = []


def to_numpy(var: Any) -> np.ndarray:
    """The value of a Tensor, or of a Variable in the global scope, as an array.

    Raises:
        AssertionError: for another type.
    """
    assert isinstance(var, (Variable, core.Tensor)), f"to_numpy: var must be a Tensor or a Variable, got {type(var)}"
    return var.numpy() if isinstance(var, core.Tensor) else np.array(global_scope().find_var(var.name).get_tensor())


def flatten_list(lists: list[list[Any]]) -> tuple[list[Any], list[int]]:
    """The elements of all lists, and the lengths of the lists."""
    assert isinstance(lists, list) and all(isinstance(part, list) for part in lists), "a list of lists is needed"
    return [item for part in lists for item in part], [len(part) for part in lists]


def restore_flatten_list(items: list[Any], splits: list[int]) -> list[list[Any]]:
    """The inverse of :func:`flatten_list`."""
    assert len(items) >= sum(splits), f"{sum(splits)} elements are needed, got {len(items)}"
    ends = np.cumsum(splits).tolist()
    return [items[end - size : end] for end, size in zip(ends, splits, strict=True)]


def extract_args(func: Callable) -> list[str]:
    """The names of a function's positional arguments."""
    return inspect.getfullargspec(func)[0]


def _all_gather(x: Any, nranks: int, ring_id: int = 0, use_calc_stream: bool = True) -> Any:
    """`x` of all processes, concatenated along dimension 0."""
    return _ops.c_allgather(x, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)
