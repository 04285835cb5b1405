"""`x[...]` and `x[...] = value` on Variables of a static Program."""

from __future__ import annotations

import sys

from paddle import _ops
from paddle._basics import numpy as np
from paddle._basics import unique_name
from paddle._basics.checks import NUMBERS
from paddle._basics.dtypes import VarType, convert_dtype, to_numpy_dtype
from paddle._programs import guards
from paddle._programs.variable import Variable, isinstance_of

__all__: list[str] = []

#: the bound of a slice up to the end
_END = 10000000


def _is_var(value) -> bool:
    return isinstance_of(value, Variable)


def _int(value, what: str) -> int:
    try:
        return value.__index__()
    except AttributeError:
        raise TypeError(f"{what} of a Variable must be int, slice, Ellipsis or a Variable, but is {value!r}") from None


def _expanded(var, item) -> list:
    """The index as a list of ints, Variables and slices, an Ellipsis replaced by full slices."""
    items = list(item) if isinstance(item, tuple) else [item]
    dots = [i for i, x in enumerate(items) if x is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single Ellipsis ('...')")
    rank = len(var.shape)
    if len(items) - len(dots) > rank:
        raise IndexError(f"too many indices ({len(items) - len(dots)}) for a Variable of {rank} dimensions")
    if dots:
        i = dots[0]
        items[i : i + 1] = [slice(None)] * (rank - len(items) + 1)
    return items


def _filled(block, value: int):
    out = block.create_var(dtype="int32")
    attrs = {"shape": [1], "dtype": out.dtype, "value": float(value), "force_cpu": True}
    block.append_op(type="fill_constant", inputs={}, outputs={"Out": [out]}, attrs=attrs)
    out.stop_gradient = True
    return out


class _Bounds:
    """One of starts, ends, strides: an attribute of numbers, or a list of tensors when an item is a Variable."""

    def __init__(self, attr: str, slot: str, values: list) -> None:
        self.attr, self.slot, self.values = attr, slot, values

    def put(self, block, inputs: dict, attrs: dict, flags: list[int]) -> None:
        if not any(_is_var(v) for v in self.values):
            attrs[self.attr] = self.values
            return
        attrs[self.attr] = []
        inputs[self.slot] = []
        for i, value in enumerate(self.values):
            known = not _is_var(value)
            inputs[self.slot].append(_filled(block, value) if known else value)
            attrs[self.attr].append(value if known else -1)
            if not known:
                value.stop_gradient = True
                flags[i] = -1


def _append(block, var, op_type: str, suffix: str, inputs: dict, attrs: dict):
    name = unique_name.generate_with_ignorable_key(f"{var.name}_{suffix}")
    out = block.create_var(name=name, dtype=var.dtype)
    block.append_op(type=op_type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def getitem(var, item):
    """`var[item]`: slice, strided_slice and reverse operators.

    Ints (dropping the dimension), int Variables of shape [1], slices of these, and Ellipsis.

    Raises:
        IndexError: too many indices.
        TypeError: for another kind of index.
        ValueError: for a step of zero.
    """
    block = guards.default_main_program().current_block()
    axes: list[int] = []
    starts: list = []
    ends: list = []
    steps: list = []
    dropped: list[int] = []
    flipped: list[int] = []
    for dim, index in enumerate(_expanded(var, item)):
        if isinstance(index, slice):
            start, end, step = index.start, index.stop, index.step
            if start is None and end is None and step is None:
                continue
            if not _is_var(step):
                step = 1 if step is None else _int(step, "the step")
                if step == 0:
                    raise ValueError("the step of a slice may not be 0")
                if start is None and end is None and step == -1:
                    flipped.append(dim)
                    continue
                if step < 0:
                    start = _END if start is None else start
                    end = -_END if end is None else end
            start = 0 if start is None else start
            end = _END if end is None else end
        else:
            dropped.append(dim)
            start, step = index, 1
            if _is_var(index):
                one = _filled(block, 1)
                if index.dtype != one.dtype:
                    one = one.astype(index.dtype)
                end = block.create_var(dtype=index.dtype)
                inputs = {"X": index, "Y": one}
                block.append_op(type="elementwise_add", inputs=inputs, outputs={"Out": end}, attrs={"axis": -1})
            else:
                start = _int(index, "an index")
                size = var.shape[dim]
                if size >= 0 and not -size <= start < size:
                    raise IndexError(f"index {start} is out of range for dimension {dim} of size {size}")
                end = start + 1 if start != -1 else _END
        axes.append(dim)
        starts.append(start if _is_var(start) else _int(start, "the start"))
        ends.append(end if _is_var(end) else _int(end, "the end"))
        steps.append(step)

    out = var
    if axes:
        inputs, flags = {"Input": [var]}, [1] * len(axes)
        attrs: dict = {"axes": axes, "decrease_axis": dropped}
        bounds = [_Bounds("starts", "StartsTensorList", starts), _Bounds("ends", "EndsTensorList", ends)]
        strided = any(_is_var(s) or s != 1 for s in steps)
        if strided:
            bounds.append(_Bounds("strides", "StridesTensorList", steps))
        for bound in bounds:
            bound.put(block, inputs, attrs, flags)
        attrs["infer_flags"] = flags
        kind = "strided_slice" if strided else "slice"
        out = _append(block, var, kind, kind, inputs, attrs)
    if flipped:
        out = _append(block, var, "reverse", "slice_reverse", {"X": out}, {"axis": flipped})
    return out


_VALUE_ATTRS = {
    VarType.BOOL: ("bool_values", bool),
    VarType.FP32: ("fp32_values", float),
    VarType.FP64: ("fp64_values", float),
    VarType.INT32: ("int32_values", int),
    VarType.INT64: ("int64_values", int),
}


def _index_axes(sliced: list[bool], rank: int, value_rank: int) -> tuple[int, ...]:
    """Where an assigned value gets dimensions of size 1, which the operator has in place of indices.

    Args:
        sliced (list of bool): whether each item is a slice, else an index.
        rank (int): of the Variable.
        value_rank (int): of the value; one above that of the selected part has these dimensions.
    """
    kept = [*sliced, *[True] * (rank - len(sliced))]
    if value_rank > sum(kept):
        return ()
    full: list[bool] = []
    for keep in reversed(kept):
        if value_rank == 0:
            break
        full.insert(0, keep)
        value_rank -= keep
    return tuple(dim for dim, keep in enumerate(full) if not keep)


def setitem(var, item, value):
    """`var[item] = value`: a set_value operator that writes `var` in place.

    Raises:
        ValueError: for a step other than 1.
        TypeError: for a value that is no number, array or Variable, or an element type that cannot be set.
    """
    axes, starts, ends = [], [], []
    places = _expanded(var, item)
    for dim, index in enumerate(places):
        if isinstance(index, slice):
            start, end, step = index.start, index.stop, index.step
            if start is None and end is None and step is None:
                continue
            if step not in (None, 1):
                raise ValueError(f"slices that are assigned to only support step is 1, got {step}")
            start = 0 if start is None else start
            end = sys.maxsize if end is None else end
        else:
            start = _int(index, "an index")
            end = start + 1 if start != -1 else sys.maxsize
        axes.append(dim)
        starts.append(_int(start, "the start"))
        ends.append(_int(end, "the end"))
    inputs = {"Input": var}
    attrs: dict = {"axes": axes, "starts": starts, "ends": ends, "dtype": var.dtype}
    if isinstance(value, (bool, np.bool_, *NUMBERS)):
        value = np.array([value]).astype(to_numpy_dtype(var.dtype))
    inner = _index_axes(
        [isinstance(index, slice) for index in places], len(var.shape), len(getattr(value, "shape", ()))
    )
    if isinstance(value, np.ndarray):
        value = np.expand_dims(value, inner)
        if var.dtype not in _VALUE_ATTRS:
            raise TypeError(
                "When assign a numpy.ndarray, integer or float to a paddle.Tensor, its dtype must be bool, float32, "
                f"float64, int32 or int64, got {convert_dtype(var.dtype)}"
            )
        name, kind = _VALUE_ATTRS[var.dtype]
        attrs[name] = [kind(v) for v in value.flat]
        attrs["shape"] = list(value.shape)
    elif _is_var(value):
        inputs["ValueTensor"] = _ops.unsqueeze2(value, axes=list(inner)) if inner else value
        if not value.stop_gradient:
            var.stop_gradient = False
    else:
        raise TypeError(f"Only support to assign an integer, float, numpy.ndarray or paddle.Tensor, got {type(value)}")
    # to the current block, so that an assignment in a loop's body belongs to the body
    block = guards.default_main_program().current_block()
    block.append_op(type="set_value", inputs=inputs, outputs={"Out": var}, attrs=attrs)
    return var
