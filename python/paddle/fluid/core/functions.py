"""Functions of paddle.fluid.core: flags, feed and fetch variables, gradient groups, memory settings."""

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
    """Types of devices, as in ExecutionStrategy."""

    CPU = 0
    CUDA = 1
    XPU = 2


#: read-only flags
_READ_ONLY: dict[str, Any] = {"FLAGS_free_idle_chunk": False, "FLAGS_free_when_no_cache_hit": False}


class _Globals(Mapping):
    """The FLAGS_* settings of the process as a mapping; public flags can be assigned."""

    def __getitem__(self, name: str) -> Any:
        return _READ_ONLY[name] if name in _READ_ONLY else _flags._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in _READ_ONLY:
            raise RuntimeError(f"the flag {name} is read-only")
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
    """Stores a LoDTensor at `index` of the feed list in the variable `name` of `scope`."""
    if index < 0:
        raise ValueError(f"the index of a fed tensor is not negative, but received {index}")
    fed = scope.var(name).get_lod_tensor_array()
    while len(fed) <= index:
        fed.append(_core.LoDTensor())
    fed[index] = tensor


def get_fetch_variable(scope: Any, name: str, index: int) -> Any:
    """The LoDTensor at `index` of the fetch list in the variable `name` of `scope`.

    Raises:
        ValueError: if the variable, or the tensor in it, does not exist.
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
        ValueError: if the operator does not exist.
    """
    table = _shape_only_slots()
    if op_type not in table:
        raise ValueError(f"there is no operator {op_type!r}")
    return set(table[op_type])


def _set_fuse_parameter_group_size(size: int) -> None:
    """Sets FLAGS_fuse_parameter_groups_size, which has no effect: gradients of places are added one by one."""
    _flags.set_flags({"FLAGS_fuse_parameter_groups_size": size})


def _set_fuse_parameter_memory_size(megabytes: float) -> None:
    """Sets FLAGS_fuse_parameter_memory_size, which has no effect: gradients of places are added one by one."""
    _flags.set_flags({"FLAGS_fuse_parameter_memory_size": float(megabytes)})


def _set_eager_deletion_mode(threshold: float, fraction: float, fast: bool) -> None:
    """Sets the flags of eager deletion, which have no effect: a temporary value is freed after its last use.

    Args:
        threshold (float): gigabytes to collect before they are freed; negative: at the end.
        fraction (float): the fraction of them to free.
        fast (bool): whether memory is returned at once.
    """
    _flags.set_flags(
        {
            "FLAGS_eager_delete_tensor_gb": threshold,
            "FLAGS_memory_fraction_of_eager_deletion": fraction,
            "FLAGS_fast_eager_deletion_mode": fast,
        }
    )


def _create_loaded_parameter(parameters: Iterable[Any], scope: Any, executor: Any = None) -> None:
    """Creates those `parameters` (Variables) that `scope` lacks: zeros of their shape and type.

    Raises:
        ValueError: if a variable is missing and `executor` is None.
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
    """The client of pslib servers, which are closed source: it stores settings, and has no table."""

    def __init__(self) -> None:
        self._client2client: tuple[int, int, int] = (500000, 10000, 3)

    def set_client2client_config(self, request_timeout_ms: int, connect_timeout_ms: int, max_retry: int) -> None:
        """Sets timeouts and retries of messages between trainers."""
        self._client2client = (request_timeout_ms, connect_timeout_ms, max_retry)

    def get_cache_threshold(self, table_id: int) -> float:
        """The minimum number of shows of a cached row: 0, as in 2.0.2 without pslib."""
        return 0.0


def run_cmd(cmd: str, time_out: int = -1, sleep_inter: int = -1) -> str:
    """The output of a shell command.

    Args:
        cmd: the command. time_out: limit in milliseconds; -1: none. sleep_inter: ignored.

    Raises:
        TimeoutError: if the command exceeds the limit.
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
    """Partitions Tensors into groups of one element type, whose gradients are reduced together.

    Args:
        vars (list of Tensor): in the order in which their gradients become ready.
        is_sparse_gradient (list of bool): by index; a Tensor with sparse gradient is a group of its own.
        group_size_limits (list of int): maximum bytes of the first, the second, ... group of a type; the last entry
            applies to all further groups.
        tensor_indices (list of int, optional): the indices of `vars`; by default their positions, and the groups are
            sorted by their first indices.

    Returns:
        list of lists of int.

    Raises:
        ValueError: for lists of different lengths, or an empty `group_size_limits`.

    Examples:
        >>> import paddle
        >>> from paddle.fluid import core
        >>> core.assign_group_by_size([paddle.zeros([100]) for _ in range(3)], [False] * 3, [800])
        [[0, 1], [2]]
    """
    if len(vars) != len(is_sparse_gradient):
        flags = len(is_sparse_gradient)
        raise ValueError(f"assign_group_by_size: {len(vars)} Tensors, but is_sparse_gradient of {flags}")
    if not group_size_limits:
        raise ValueError("assign_group_by_size: group_size_limits needs one limit at least")
    numbers = list(tensor_indices or range(len(vars)))
    if sorted(numbers) != list(range(len(vars))):
        raise ValueError(f"assign_group_by_size: tensor_indices must be the numbers below {len(vars)}, got {numbers}")
    groups: list[list[int]] = []
    #: element type -> (current group, its bytes, number of complete groups)
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
