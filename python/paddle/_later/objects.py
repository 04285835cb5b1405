"""Collectives on Python objects of `paddle.distributed` in Paddle 2.4 to 2.6: pickled, as bytes of Tensors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import paddle
from paddle._basics.mode import in_static_mode
from paddle.distributed import all_gather, broadcast, scatter
from paddle.distributed.collective import _group

__all__: list[str] = []


def _bytes(value: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(value), "uint8")


def _tensor(array: np.ndarray, size: int) -> Any:
    padded = np.zeros(max(size, 1), "uint8")
    padded[: array.size] = array
    return paddle.to_tensor(padded)


def _object(tensor: Any, size: int) -> Any:
    return pickle.loads(tensor.numpy()[:size].tobytes())


def _checked(function: str, group: Any) -> Any:
    if in_static_mode():
        raise AssertionError(f"{function}: only available in dygraph mode")
    return _group(0 if group is None else group)


def _list(function: str, argument: str, value: Any) -> None:
    if not isinstance(value, list):
        raise TypeError(f"{function}: {argument} must be a list, got {type(value).__name__}")


def all_gather_object(object_list, obj, group=None):
    """Appends the object of every rank to `object_list`, in order of the ranks.

    Every process of a job can run code in the others by this: objects are pickled.

    Args:
        object_list (list): the objects are appended to it.
        obj (object): this rank's; it can be pickled.
        group (Group, optional): all ranks by default.

    Raises:
        AssertionError: in static mode. TypeError: unless `object_list` is a list.

    Examples:
        >>> import paddle.distributed as dist
        >>> found = []
        >>> dist.all_gather_object(found, {"rank": 0})
        >>> found
        [{'rank': 0}]
    """
    ranks = _checked("all_gather_object", group)
    _list("all_gather_object", "object_list", object_list)
    own, sizes, parts = _bytes(obj), [], []
    all_gather(sizes, paddle.to_tensor([own.size], dtype="int64"), group=ranks)
    lengths = [int(s.item()) for s in sizes]
    all_gather(parts, _tensor(own, max(lengths)), group=ranks)
    object_list += [_object(part, size) for part, size in zip(parts, lengths, strict=True)]


def broadcast_object_list(object_list, src, group=None):
    """Replaces the objects of the list by those of the rank `src`.

    Args:
        object_list (list): of the same length on every rank; can be pickled on `src`.
        src (int): the global rank of the source.
        group (Group, optional): all ranks by default.

    Raises:
        AssertionError: in static mode. TypeError: unless `object_list` is a list.
        ValueError: for a rank outside of the group, or a list of another length than on `src`.

    Examples:
        >>> import paddle.distributed as dist
        >>> objects = [{"a": 1}, "b"]
        >>> dist.broadcast_object_list(objects, src=0)
        >>> objects
        [{'a': 1}, 'b']
    """
    ranks = _checked("broadcast_object_list", group)
    _list("broadcast_object_list", "object_list", object_list)
    is_source = paddle.distributed.get_rank() == src
    own = _bytes(object_list) if is_source else np.zeros(0, "uint8")
    size = paddle.to_tensor([own.size], dtype="int64")
    broadcast(size, src, group=ranks)
    length = int(size.item())
    data = _tensor(own, length)
    broadcast(data, src, group=ranks)
    if is_source:
        return
    found = _object(data, length)
    if len(found) != len(object_list):
        raise ValueError(
            f"broadcast_object_list: object_list has {len(object_list)} objects, that of rank {src} {len(found)}"
        )
    object_list[:] = found


def scatter_object_list(out_object_list, in_object_list=None, src=0, group=None):
    """Sets `out_object_list` to one object of the list of the rank `src`: each rank of the group gets its own.

    Args:
        out_object_list (list): its elements are replaced by the object.
        in_object_list (list, optional): on `src`, an object for each rank; ignored on others.
        src (int): the global rank of the source.
        group (Group, optional): all ranks by default.

    Raises:
        AssertionError: in static mode. TypeError: for an argument that is no list.
        ValueError: on `src`, for another number of objects than ranks.

    Examples:
        >>> import paddle.distributed as dist
        >>> own = []
        >>> dist.scatter_object_list(own, [{"a": 1}], src=0)
        >>> own
        [{'a': 1}]
    """
    ranks = _checked("scatter_object_list", group)
    _list("scatter_object_list", "out_object_list", out_object_list)
    is_source = paddle.distributed.get_rank() == src
    parts: list[np.ndarray] = []
    if is_source:
        _list("scatter_object_list", "in_object_list", in_object_list)
        if len(in_object_list) != ranks.nranks:
            raise ValueError(f"scatter_object_list: {len(in_object_list)} objects for {ranks.nranks} ranks")
        parts = [_bytes(value) for value in in_object_list]
    longest = paddle.to_tensor([max((p.size for p in parts), default=0)], dtype="int64")
    broadcast(longest, src, group=ranks)
    size, data = paddle.zeros([1], "int64"), _tensor(np.zeros(0, "uint8"), int(longest.item()))
    sizes = [paddle.to_tensor([p.size], dtype="int64") for p in parts]
    scatter(size, sizes if is_source else None, src, group=ranks)
    scatter(data, [_tensor(p, data.shape[0]) for p in parts] if is_source else None, src, group=ranks)
    out_object_list[:] = [_object(data, int(size.item()))]
