"""Helpers of paddle.fluid.core that scripts and tests call: flags, feed and fetch variables, what passes ask."""

from __future__ import annotations

import enum
import math
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._basics import flags as _flags
from paddle._basics.dtypes import to_numpy_dtype
from paddle._basics.place import CPUPlace

__all__ = [
    "globals",
    "set_feed_variable",
    "get_fetch_variable",
    "infer_no_need_buffer_slots",
    "_set_eager_deletion_mode",
    "_set_fuse_parameter_group_size",
    "_set_fuse_parameter_memory_size",
    "_create_loaded_parameter",
    "DeviceType",
    "Fleet",
    "run_cmd",
    "assign_group_by_size",
]


class DeviceType(enum.IntEnum):
    """Kinds of devices, as ExecutionStrategy knows them."""

    CPU = 0
    CUDA = 1
    XPU = 2


#: flags that can be looked at only
_READ_ONLY: dict[str, Any] = {"FLAGS_free_idle_chunk": False, "FLAGS_free_when_no_cache_hit": False}


class _Globals(Mapping):
    """The FLAGS_* settings of the process as a mapping; those that a program may set can be assigned."""

    def __getitem__(self, name: str) -> Any:
        return _READ_ONLY[name] if name in _READ_ONLY else _flags._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in _READ_ONLY:
            raise RuntimeError(f"the flag {name} can be read only")
        _flags.set_flags({name: value})

    def __iter__(self) -> Any:
        return iter((*_READ_ONLY, *_flags._values))

    def __len__(self) -> int:
        return len(_READ_ONLY) + len(_flags._values)

    def is_public(self, name: str) -> bool:
        """Whether a program may set the flag."""
        return name in _flags._values


_globals = _Globals()


def globals() -> _Globals:  # noqa: A001 (Paddle's name)
    """The FLAGS_* settings.

    Examples:
        >>> from paddle.fluid import core
        >>> core.globals()["FLAGS_use_mkldnn"]
        False
    """
    return _globals


def set_feed_variable(scope: Any, tensor: Any, name: str, index: int) -> None:
    """Put a LoDTensor at `index` of the list of fed tensors that the variable `name` of `scope` holds."""
    if index < 0:
        raise ValueError(f"the index of a fed tensor is not negative, but received {index}")
    fed = scope.var(name).get_lod_tensor_array()
    while len(fed) <= index:
        fed.append(_core.LoDTensor())
    fed[index] = tensor


def get_fetch_variable(scope: Any, name: str, index: int) -> Any:
    """The LoDTensor at `index` of the list of fetched tensors that the variable `name` of `scope` holds.

    Raises:
        ValueError: when there is no such variable, or no such tensor in it.
    """
    var = scope.find_var(name)
    if var is None:
        raise ValueError(f"Variable {name} is not found in the scope")
    fetched = var.get_lod_tensor_array()
    if not 0 <= index < len(fetched):
        raise ValueError(f"Variable {name} holds {len(fetched)} tensors: there is none with the index {index}")
    return fetched[index]


@cache
def _shape_only_slots() -> dict[str, frozenset[str]]:
    return {
        op["type"]: frozenset(slot["name"] for slot in op["inputs"] if slot["meta_only"]) for op in _core.op_table()
    }


def infer_no_need_buffer_slots(op_type: str, inputs: Any, outputs: Any, attrs: Any) -> set[str]:
    """The input slots of an operator of which only shape and type are read.

    Raises:
        ValueError: for an operator that is not there.
    """
    table = _shape_only_slots()
    if op_type not in table:
        raise ValueError(f"there is no operator {op_type!r}")
    return set(table[op_type])


def _set_fuse_parameter_group_size(size: int) -> None:
    """Sets FLAGS_fuse_parameter_groups_size: gradients of places are summed up one by one here, whatever it says."""
    _flags.set_flags({"FLAGS_fuse_parameter_groups_size": size})


def _set_fuse_parameter_memory_size(megabytes: float) -> None:
    """Sets FLAGS_fuse_parameter_memory_size: gradients of places are summed up one by one here, whatever it says."""
    _flags.set_flags({"FLAGS_fuse_parameter_memory_size": float(megabytes)})


def _set_eager_deletion_mode(threshold: float, fraction: float, fast: bool) -> None:
    """Sets the flags for when temporary values are freed. This engine frees each after its last use, whatever they say.

    Args:
        threshold (float): gigabytes that are gathered before they are freed; below 0: at the end.
        fraction (float): the part of them that is freed.
        fast (bool): whether memory is given back at once.
    """
    _flags.set_flags(
        {
            "FLAGS_eager_delete_tensor_gb": threshold,
            "FLAGS_memory_fraction_of_eager_deletion": fraction,
            "FLAGS_fast_eager_deletion_mode": fast,
        }
    )


def _create_loaded_parameter(parameters: Iterable[Any], scope: Any, executor: Any = None) -> None:
    """Makes those of `parameters` (Variables) that `scope` does not have: zeros of their shape and type.

    Raises:
        ValueError: for a variable that is not there, where `executor` is None, which Paddle needs to know the place.
    """
    for var in parameters:
        if scope.find_var(var.name) is not None:
            continue
        if executor is None:
            raise ValueError(
                f"the parameter {var.name} has no value in the scope: give an executor, or run the startup program"
            )
        scope.var(var.name).get_tensor().set(np.zeros(var.shape, to_numpy_dtype(var.dtype)), CPUPlace())


class Fleet:
    """The client of the pslib servers, which are closed source: it keeps settings, and has no table."""

    def __init__(self) -> None:
        self._client2client: tuple[int, int, int] = (500000, 10000, 3)

    def set_client2client_config(self, request_timeout_ms: int, connect_timeout_ms: int, max_retry: int) -> None:
        """Keeps the waits and retries of messages between trainers."""
        self._client2client = (request_timeout_ms, connect_timeout_ms, max_retry)

    def get_cache_threshold(self, table_id: int) -> float:
        """How often a row must have been shown to be cached: 0, as without pslib in 2.0.2."""
        return 0.0


def run_cmd(cmd: str, time_out: int = -1, sleep_inter: int = -1) -> str:
    """What a shell command writes to its output.

    Args:
        cmd: the command. time_out: milliseconds after which it is given up; -1: never. sleep_inter: not needed.

    Raises:
        TimeoutError: when it takes longer.
    """
    seconds = None if time_out < 0 else time_out / 1000
    try:
        return subprocess.run(["bash", "-c", cmd], stdout=subprocess.PIPE, timeout=seconds, text=True).stdout
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"run_cmd: {cmd!r} took more than {time_out} ms") from None


def assign_group_by_size(
    vars: list[Any],  # noqa: A002
    is_sparse_gradient: list[bool],
    group_size_limits: list[int],
    tensor_indices: list[int] | None = None,
) -> list[list[int]]:
    """Deals Tensors out to groups of one element type each, whose gradients travel together.

    Args:
        vars (list of Tensor): in the order in which their gradients come.
        is_sparse_gradient (list of bool): by number; whose gradient is rows is a group of its own.
        group_size_limits (list of int): bytes at which the first, the second, ... group of a type is full; the last one
            is that of all further ones.
        tensor_indices (list of int, optional): the numbers of `vars`; their places by default, and then the groups are
            in the order of their first numbers.

    Returns:
        list of lists of int.

    Raises:
        ValueError: for lists that do not fit each other, or without a limit.

    Examples:
        >>> import paddle
        >>> from paddle.fluid import core
        >>> core.assign_group_by_size([paddle.zeros([100]) for _ in range(3)], [False] * 3, [800])
        [[0, 1], [2]]
    """
    if len(vars) != len(is_sparse_gradient):
        told = len(is_sparse_gradient)
        raise ValueError(f"assign_group_by_size: {len(vars)} Tensors, but is_sparse_gradient of {told}")
    if not group_size_limits:
        raise ValueError("assign_group_by_size: group_size_limits needs one limit at least")
    numbers = list(tensor_indices or range(len(vars)))
    if sorted(numbers) != list(range(len(vars))):
        raise ValueError(f"assign_group_by_size: tensor_indices must be the numbers below {len(vars)}, got {numbers}")
    groups: list[list[int]] = []
    #: by element type: the group that is not full yet, its bytes, how many were full before it
    opened: dict[Any, tuple[list[int], int, int]] = {}
    for var, number in zip(vars, numbers, strict=True):
        if is_sparse_gradient[number]:
            groups.append([number])
            continue
        group, size, before = opened.get(var.dtype, ([], 0, 0))
        group.append(number)
        size += math.prod(var.shape) * to_numpy_dtype(var.dtype).itemsize
        if size >= group_size_limits[min(before, len(group_size_limits) - 1)]:
            groups.append(group)
            group, size, before = [], 0, before + 1
        opened[var.dtype] = group, size, before
    groups += [group for group, _, _ in opened.values() if group]
    return groups if tensor_indices else sorted(groups)
