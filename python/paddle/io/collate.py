"""Collation of samples into batches, and conversion of batches for dygraph and static mode."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.dtypes import why_irregular
from paddle.tensor.manipulation import stack
from paddle.tensor.tensor import to_tensor

__all__ = ["default_collate_fn"]


class Stacked:
    """Arrays of one shape and type that are to be stacked: a worker writes them into shared memory one by one."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[np.ndarray]) -> None:
        self.items = items


def _later(items: Sequence[Any]) -> Any:
    """Stacks at once only what `Stacked` cannot represent."""
    first = items[0]
    if not isinstance(first, np.ndarray) or first.dtype.hasobject or first.ndim == 0:
        return np.stack(items, axis=0)
    shape, dtype = first.shape, first.dtype
    for item in items:
        fits = type(item) is np.ndarray and item.shape == shape and item.dtype == dtype and item.flags.c_contiguous
        if not fits:
            return np.stack(items, axis=0)
    return Stacked(items)


def _stack(items: Sequence[Any], arrays: Callable[[Any], Any]) -> Any:
    first = items[0]
    # Before np.generic: numpy's strings are both.
    if isinstance(first, (str, bytes)):
        return list(items)
    if isinstance(first, (np.ndarray, np.generic, bool, numbers.Number)):
        return arrays(items)
    if _is_tensor(first):
        return stack(list(items), axis=0)
    if isinstance(first, Mapping):
        return {key: _stack([item[key] for item in items], arrays) for key in first}
    if isinstance(first, Sequence):
        return _fields(items, arrays)
    if any(hasattr(type(first), name) for name in ("__dlpack__", "__array__")):
        return stack([to_tensor(item) for item in items], axis=0)
    raise RuntimeError(f"Unknown data type {type(first)}")


def _fields(items: Sequence[Sequence[Any]], arrays: Callable[[Any], Any]) -> list[Any]:
    width = len(items[0])
    if any(len(item) != width for item in items):
        lengths = sorted({len(item) for item in items})
        raise RuntimeError(f"the samples of a batch have different numbers of fields: {lengths}")
    return [_stack(field, arrays) for field in zip(*items, strict=True)]


def _collate(batch: Sequence[Any], arrays: Callable[[Any], Any]) -> Any:
    sample = batch[0]
    if isinstance(sample, Mapping):
        return _stack(batch, arrays)
    if isinstance(sample, Sequence) and not isinstance(sample, (str, bytes)):
        return _fields(batch, arrays)
    return [_stack(batch, arrays)]


def collate_later(batch: Sequence[Any]) -> Any:
    """`default_collate_fn` with `Stacked` in place of the large arrays."""
    return _collate(batch, _later)


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Stacks a list of samples, field by field, along a new axis 0.

    Args:
        batch: samples of one kind: an array, Tensor or number, or a list, tuple or dict of fields (which may be
            nested).

    Returns:
        A list with one array (or Tensor) per field, of length 1 if a sample is a single field; a dict if a sample is a
        dict.

    Raises RuntimeError for a field of another type or samples with different numbers of fields, ValueError for
    different shapes.

    Examples:
        >>> import numpy as np
        >>> from paddle.io.collate import default_collate_fn
        >>> [field.shape for field in default_collate_fn([(np.ones(3), 1), (np.ones(3), 2)])]
        [(2, 3), (2,)]
    """
    return _collate(batch, np.stack)


def _is_tensor(value: object) -> bool:
    return isinstance(value, core.Tensor)


def map_arrays(batch: Any, leaf: Callable[[Any], Any]) -> Any:
    """`batch` with `leaf` applied to each array, number and Tensor in it; the outermost sequence becomes a list."""
    if isinstance(batch, (str, bytes)) or batch is None:
        return batch
    if isinstance(batch, (np.ndarray, np.generic, numbers.Number)) or _is_tensor(batch):
        return leaf(batch)
    if isinstance(batch, Mapping):
        return {key: map_arrays(value, leaf) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_arrays(value, leaf) for value in batch))
    if isinstance(batch, Sequence):
        return [map_arrays(value, leaf) for value in batch]
    return leaf(batch) if hasattr(batch, "__array__") else batch


def as_numpy(value: Any) -> Any:
    """The data of a Tensor; other values unchanged. Workers send plain arrays."""
    return value.numpy() if _is_tensor(value) else value


def as_array(value: Any) -> np.ndarray:
    """A regular ndarray; TypeError with an explanation for ragged nested lists."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(1, dtype=object)
    if array.dtype == np.object_:
        raise TypeError(
            f"a batch does not make one array: {why_irregular(value)}. Look at what the generator "
            "given to decorate_batch_generator yields, or build a LoDTensor with fluid.create_lod_tensor"
        )
    return array


def to_eager(batch: Any, place: Any, owned: bool = False) -> Any:
    """The batch for dygraph mode: Tensors instead of arrays, in a list even for one field.

    `owned`: nothing else has the arrays, so Tensors on the CPU take their memory (a second Tensor of one array copies).
    """
    adopt = owned and place.is_cpu_place()
    taken: set[int] = set()

    def leaf(value: Any) -> Any:
        if adopt and type(value) is np.ndarray and value.ndim and id(value) not in taken:
            taken.add(id(value))
            return core.tensor_over_array(value, True)
        return value if _is_tensor(value) else to_tensor(as_array(value), place=place)

    out = map_arrays(batch, leaf)
    return out if isinstance(out, (list, dict, tuple)) else [out]


def to_lod_tensors(batch: Any, place: Any) -> Any:
    """The batch for static mode: a list (or dict) with a LoDTensor for each array."""

    def leaf(value: Any) -> Any:
        if isinstance(value, core.LoDTensor):
            return value
        tensor = core.LoDTensor()
        tensor.set(as_array(as_numpy(value)), place)
        return tensor

    out = map_arrays(batch, leaf)
    return out if isinstance(out, (list, dict, tuple)) else [out]


def by_name(fields: Any, feed_list: Sequence[Any]) -> Any:
    """The `feed` dict for Executor.run, from fields in the order of `feed_list`."""
    if isinstance(fields, Mapping):
        return fields
    if len(fields) != len(feed_list):
        raise ValueError(f"the data source gives {len(fields)} fields, but feed_list has {len(feed_list)}")
    return {var.name: field for var, field in zip(feed_list, fields, strict=True)}
