"""Feeding and fetching: checks of fed values, conversion of fed and fetched ones."""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.dtypes import (
    VarType,
    convert_dtype,
    convert_np_dtype_to_dtype_,
    regular_array,
    to_numpy_dtype,
    why_irregular,
)
from paddle._programs.operator import Operator
from paddle._programs.variable import Variable, isinstance_of

__all__: list[str] = []


def as_numpy(tensor, copy: bool = False):
    """A fetched LoDTensor (or an array or list of them) as numpy arrays; None for one without a value.

    Raises:
        RuntimeError: when the tensor has a LoD, which an array cannot hold.
    """
    if type(tensor) is core.LoDTensor and not copy and not tensor.lod() and tensor._is_initialized():
        return tensor.__array__()  # returns a copy; np.asarray first tries several protocols
    if isinstance(tensor, (list, core.LoDTensorArray)):
        return [as_numpy(t, copy) for t in tensor]
    if not isinstance(tensor, core.LoDTensor):
        raise TypeError(f"only LoDTensors can be turned into numpy arrays, but received {type(tensor)}")
    if tensor.lod():
        raise RuntimeError("fetch: a fetched tensor has a LoD, which an ndarray cannot hold: use return_numpy=False")
    if not tensor._is_initialized():
        return None
    return np.array(tensor) if copy else np.asarray(tensor)


def dtype_is_compatible_with(first, second) -> bool:
    """Whether two element types (VarType, numpy type or name) are the same."""
    return convert_np_dtype_to_dtype_(first) == convert_np_dtype_to_dtype_(second)


def dimension_is_compatible_with(first, second) -> bool:
    """Whether two shapes agree where both sizes are known (not None, not negative)."""
    if len(first) != len(second):
        return False
    return all(a is None or b is None or a < 0 or b < 0 or a == b for a, b in zip(first, second, strict=False))


def check_feed_shape_type(var, feed, num_places: int = 1) -> bool:
    """ValueError unless the fed tensor has the shape and type that `var` was declared with."""
    if var.desc.need_check_feed():
        _check(var.name, var.shape, var.dtype, tuple(feed.shape()), feed._dtype(), num_places, bool(feed.lod()))
    return True


def _fits(fed: tuple, declared: tuple, has_lod: bool) -> bool:
    """Whether a fed shape matches the declared one.

    As in Paddle, trailing sizes of 1 may be absent: [2] matches [-1, 1]. (Paddle ignores every declared size that is
    not fed.) With LoD the number of rows is arbitrary.
    """
    if len(fed) > len(declared) or any(want not in (1, -1, None) for want in declared[len(fed) :]):
        return False
    if not fed:
        return not declared
    start = 1 if has_lod else 0
    pairs = zip(fed[start:], declared[start:], strict=False)
    return all(want is None or want < 0 or want == got for got, want in pairs)


def _check(
    name: str, shape: tuple, dtype, fed_shape: tuple, fed_dtype, num_places: int = 1, has_lod: bool = False
) -> None:
    if num_places > 1 and fed_shape and not has_lod:
        # the batch is split over the places; a declared number of rows is compared with the last part's
        rows = -(-fed_shape[0] // num_places)
        last = fed_shape[0] % rows if rows else 0
        fed_shape = (last if last and shape and shape[0] == rows else rows, *fed_shape[1:])
    if not _fits(fed_shape, shape, has_lod):
        raise ValueError(
            f"The fed Variable {name!r} should have dimensions = {len(shape)}, shape = {shape!r}, "
            f"but received fed shape {list(fed_shape)!r} on each device"
        )
    if not dtype_is_compatible_with(fed_dtype, dtype):
        raise ValueError(
            f"The data type of fed Variable {name!r} must be {convert_dtype(dtype)!r}, "
            f"but received {convert_dtype(fed_dtype)!r}"
        )


def _as_lodtensor(data: Any, place, dtype=None):
    """A LoDTensor from an array, or from a number or list, which are converted to `dtype`."""
    if not isinstance(data, np.ndarray):
        if dtype is None:
            raise AssertionError("feed: dtype must be given for data other than an ndarray")
        dtype = to_numpy_dtype(dtype)
        if isinstance(data, (list, tuple)):
            array = regular_array(data)
            if array is None:
                raise TypeError(
                    f"feed: the data is no array: {why_irregular(data)}; "
                    "fluid.create_lod_tensor makes a LoDTensor of lists with different lengths"
                )
            data = array.astype(dtype)
        elif np.isscalar(data):
            data = np.array([data]).astype(dtype)
        elif not isinstance(data, core.Tensor):
            raise TypeError(f"feed: data of {type(data)} cannot be converted to a Tensor")
    tensor = core.LoDTensor()
    tensor.set(data, place)
    return tensor


class FeedSlot:
    """Converts and checks the values fed to one variable; each is shared by `places` places."""

    __slots__ = ("name", "shape", "dtype", "numpy_dtype", "check", "rank", "seen", "places")

    def __init__(self, var, places: int = 1) -> None:
        self.name = var.name
        self.shape = var.shape
        self.rank = len(self.shape)
        self.dtype = var.dtype
        self.numpy_dtype = to_numpy_dtype(var.dtype)
        self.check = bool(var.desc.need_check_feed())
        self.places = places
        #: shape and type of the last valid array
        self.seen: tuple = (None, None)

    def tensor(self, value, place):
        """`value` as an array or LoDTensor of the declared shape and type."""
        if type(value) is np.ndarray:
            if self.seen[0] == value.shape and self.seen[1] is value.dtype:
                return value
            # the common case, checked without a call; `_check` decides the others, such as uint16 for bfloat16
            if self.check and (value.dtype != self.numpy_dtype or value.ndim != self.rank or self.places > 1):
                dtype = convert_np_dtype_to_dtype_(value.dtype)
                _check(self.name, self.shape, self.dtype, value.shape, dtype, self.places)
            elif self.check:
                for want, got in zip(self.shape, value.shape, strict=False):
                    if want != got and want >= 0:
                        _check(self.name, self.shape, self.dtype, value.shape, self.dtype)
            self.seen = (value.shape, value.dtype)
            return value
        if not isinstance(value, core.LoDTensor):
            value = _as_lodtensor(value, place, self.dtype)
        if self.check:
            shape, dtype = tuple(value.shape()), value._dtype()
            _check(self.name, self.shape, self.dtype, shape, dtype, self.places, bool(value.lod()))
        return value


def _to_name_str(var) -> str:
    """The name of an item of a fetch list."""
    if isinstance(var, tuple):
        var = var[0]
    if isinstance(var, list):
        return ",".join(_to_name_str(v) for v in var)
    if isinstance(var, str):
        return var
    if isinstance_of(var, Variable):
        return var.name
    if isinstance(var, Operator):
        return str(id(var))
    raise TypeError(f"fetch_list holds {var}, which is no name, Variable or Operator")


def split_fetch_list(fetch_list) -> tuple[list, list]:
    """(Variables and names, operators of the optimizer) of a fetch list, whose items may be lists of these."""
    variables: list = []
    operators: list = []
    waiting = list(reversed(fetch_list))
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], list) and isinstance(one[1], list):
            # minimize() returns ([operators], [(parameter, gradient)])
            waiting.append(one[0])
        elif isinstance(one, (list, tuple)):
            waiting.extend(reversed(one))
        elif isinstance(one, Operator):
            if not one._is_optimize_op():
                raise TypeError("run: fetch_list holds an Operator that is no update of an optimizer")
            operators.append(one)
        elif isinstance(one, str) or isinstance_of(one, Variable):
            variables.append(one)
        else:
            raise TypeError(f"run: fetch_list must hold names, Variables or what minimize returned, got {type(one)}")
    return variables, operators


def explain_missing_value(error: Exception, program: Any, scope, fed: list) -> None:
    """Adds to an error about a variable without a value the variables that were not fed, or not initialised by the
    startup program.
    """
    if error.kind != "NoValue":  # type: ignore[attr-defined]
        return
    found = {name: scope.find_var(name) for name in program.global_block().vars}
    empty = {name for name, var in found.items() if var is None or var._kind() == "an uninitialised variable"}
    variables = [v for v in program.list_vars() if v.name in empty and v.name not in fed]
    written = {name for block in program.blocks for op in block.ops for name in op.output_arg_names}
    unfed = [v.name for v in variables if v.is_data and v.name not in written]
    unmade = [v.name for v in variables if v.persistable and v.type == VarType.LOD_TENSOR]
    text = str(error)
    if unfed:
        text += f"\n  no data was fed for {', '.join(unfed)}"
    if unmade:
        text += f"\n  the startup program has not been run in this scope for {', '.join(unmade[:5])}"
    error.args = (text,)


def _has_operators(kind: str, pairs: list[tuple[str, str]], names: Collection[str], holder: str) -> bool:
    """Whether there are feed or fetch operators; `pairs` has (holder, variable) of each. ValueError for a mismatch."""
    for held, name in pairs:
        if held != holder:
            raise ValueError(f"{kind} operator of {name}: its holder is {held!r}, expected {holder!r}")
        if name not in names:
            raise ValueError(f"'{kind}_targets' does not have {name} variable")
    if pairs and len(pairs) != len(names):
        raise ValueError(f"{len(pairs)} {kind} operators do not match the {len(names)} '{kind}_targets'")
    return bool(pairs)


def has_feed_operators(block: Any, feed_targets: Any, feed_holder_name: str) -> bool:
    """Whether a block begins with feed operators.

    Args:
        block (Block): a Program's global block. feed_targets (dict): the feed, by name.
        feed_holder_name (str): the variable that the operators read.

    Raises:
        ValueError: for operators that feed other variables, or read another holder.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [2])
        >>> fluid.executor.has_feed_operators(x.block, {"x": None}, "feed")
        False
    """
    first = takewhile(lambda op: op.type == "feed", block.ops)
    pairs = [(op.desc.input("X")[0], op.desc.output("Out")[0]) for op in first]
    return _has_operators("feed", pairs, feed_targets, feed_holder_name)


def has_fetch_operators(block: Any, fetch_targets: Any, fetch_holder_name: str) -> bool:
    """Whether a block has fetch operators.

    Args:
        block (Block): a Program's global block. fetch_targets (list): the Variables to fetch, in order.
        fetch_holder_name (str): the variable that the operators write.

    Raises:
        ValueError: for operators that fetch other variables, in another order, or write another holder.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [2])
        >>> fluid.executor.has_fetch_operators(x.block, [x], "fetch")
        False
    """
    found = [op for op in block.ops if op.type == "fetch"]
    names = [var.name for var in fetch_targets]
    pairs = [(op.desc.output("Out")[0], op.desc.input("X")[0]) for op in found]
    there = _has_operators("fetch", pairs, names, fetch_holder_name)
    for op, (_, name) in zip(found, pairs, strict=True):
        place = op.attr("col")
        if not 0 <= place < len(names) or names[place] != name:
            raise ValueError(f"fetch operator of {name}: its column is {place}, 'fetch_targets' are {names}")
    return there
