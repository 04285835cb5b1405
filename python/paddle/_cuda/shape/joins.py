"""concat, split, stack, slice, expand, tile, fill, where, pad and their gradients, by CuPy functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ..call import Call, Declined, Rows, number, same_dtype


def _list(call: Call, slot: str, elements: bool = True) -> list:
    """The tensors of a duplicable input, of one data type; `elements` False accepts Shape objects."""
    values = call.ins[slot]
    if not values or any(v is None or isinstance(v, Rows) for v in values):
        raise Declined
    if elements and not all(hasattr(v, "reshape") for v in values):
        raise Declined
    same_dtype(*values)
    return values


def _sizes(call: Call, sizes: list[int]) -> list[int]:
    return list(itertools.accumulate(sizes))[:-1]


def _concat(call: Call) -> dict:
    call.alone("X")
    return {"Out": call.xp.concatenate(_list(call, "X"), call.attrs["axis"])}


def _concat_grad(call: Call) -> dict:
    call.alone("X", "Out@GRAD")
    parts, axis = _list(call, "X", elements=False), call.attrs["axis"]
    d = call.array("Out@GRAD")
    axis += d.ndim if axis < 0 else 0
    return {"X@GRAD": call.xp.split(d, _sizes(call, [v.shape[axis] for v in parts]), axis)}


def _split(call: Call) -> dict:
    call.alone("X")
    x, a = call.array("X"), call.attrs
    if a["num"]:
        return {"Out": call.xp.split(x, a["num"], a["axis"])}
    sizes = list(a["sections"])
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[a["axis"]] - sum(sizes) - 1
    return {"Out": call.xp.split(x, _sizes(call, sizes), a["axis"])}


def _stack(call: Call) -> dict:
    return {"Y": call.xp.stack(_list(call, "X"), call.attrs["axis"])}


def _apart(source: str, to: str) -> Callable[[Call], dict]:
    """The slices along an axis, which is removed."""

    def launch(call: Call) -> dict:
        x = call.array(source)
        return {to: list(call.xp.moveaxis(x, call.attrs["axis"], 0))}

    return launch


def _unstack_grad(call: Call) -> dict:
    return {"X@GRAD": call.xp.stack(_list(call, "Y@GRAD"), call.attrs["axis"])}


#: the inputs that may replace attributes of slice and strided_slice: the elements of a tensor, a list of tensors
_BOUNDS = tuple(f"{name}Tensor{kind}" for name in ("Starts", "Ends", "Strides") for kind in ("", "List"))


def _bounds(call: Call, name: str) -> list[int]:
    """The starts, ends or strides: of a tensor, of a list of tensors, or the attribute."""
    listed = call.ins.get(f"{name}TensorList")
    if listed:
        return [int(call.machine.download(v).reshape(())) for v in listed]
    return call.numbers(f"{name}Tensor") or list(call.attrs.get(name.lower(), ()))


def _cut(call: Call, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The slices of slice and strided_slice."""
    a, part = call.attrs, [slice(None)] * len(shape)
    starts, ends = _bounds(call, "Starts"), _bounds(call, "Ends")
    strides = _bounds(call, "Strides") or [1] * len(a["axes"])
    if not len(a["axes"]) == len(starts) == len(ends) == len(strides):
        raise Declined
    # Index -1 from a tensor has the end 0, which is the end of the axis.
    flags = a.get("infer_flags") or [1] * len(a["axes"])
    for i, axis in enumerate(a["axes"]):
        if (starts[i], ends[i], flags[i]) == (-1, 0, -1) and axis in a["decrease_axis"]:
            raise Declined
    for axis, start, end, stride in zip(a["axes"], starts, ends, strides, strict=True):
        if stride < 1:
            raise Declined
        size = shape[axis]
        start, end = (min(max(v + size if v < 0 else v, 0), size) for v in (start, end))
        part[axis] = slice(start, max(start, end), stride)
    return tuple(part)


def _slice(call: Call) -> dict:
    call.alone("Input", *_BOUNDS)
    x = call.array("Input")
    return {"Out": x[_cut(call, x.shape)].reshape(call.shape("Out"))}


def _slice_grad(call: Call) -> dict:
    call.alone("Input", "Out@GRAD", *_BOUNDS)
    x, d = call.ins["Input"], call.array("Out@GRAD")
    if x is None or isinstance(x, (Rows, list)):
        raise Declined
    dx = call.xp.zeros(x.shape, d.dtype)
    part = _cut(call, x.shape)
    dx[part] = d.reshape(dx[part].shape)
    return {"Input@GRAD": dx}


def _broadcast(call: Call) -> dict:
    call.alone("X", "target_tensor", "Y")
    return {"Out": call.xp.broadcast_to(call.array("X"), call.shape("Out"))}


def _tile(call: Call) -> dict:
    call.alone("X")
    times = call.attrs.get("repeat_times") or call.attrs.get("expand_times") or ()
    return {"Out": call.xp.tile(call.array("X"), tuple(times)).reshape(call.shape("Out"))}


def _sum_back(call: Call) -> dict:
    """The gradient of repetition: the sum over the copies of an element."""
    call.alone("X", "Y", "target_tensor", "Out@GRAD")
    x, d = call.ins["X"], call.array("Out@GRAD")
    if x is None or isinstance(x, (Rows, list)) or d.dtype.kind != "f":
        raise Declined
    rank = max(len(x.shape), d.ndim)
    small, large = ((1,) * (rank - len(s)) + tuple(s) for s in (x.shape, d.shape))
    if 0 in large or any(b % a for a, b in zip(small, large, strict=True)):
        raise Declined
    apart = tuple(n for a, b in zip(small, large, strict=True) for n in (b // a, a))
    return {"X@GRAD": d.reshape(apart).sum(axis=tuple(range(0, 2 * rank, 2))).reshape(x.shape)}


def _filled(value: Callable[[dict], Any]) -> Callable[[Call], dict]:
    """A launcher that fills a tensor of the inferred shape and data type with one value."""

    def launch(call: Call) -> dict:
        call.alone("X", "Input")
        dtype = call.dtype("Out")
        return {"Out": call.xp.full(call.shape("Out"), number(value(call.attrs), dtype), dtype)}

    return launch


def _constant(attrs: dict) -> Any:
    if attrs.get("force_cpu"):
        raise Declined
    text = attrs.get("str_value")
    if not text:
        return attrs["value"]
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _where(call: Call) -> dict:
    condition, x, y = (call.array(s) for s in ("Condition", "X", "Y"))
    same_dtype(x, y)
    if condition.shape != x.shape or y.shape != x.shape:
        raise Declined
    return {"Out": call.xp.where(condition, x, y)}


def _where_grad(call: Call) -> dict:
    condition, d = call.array("Condition"), call.array("Out@GRAD")
    if condition.shape != d.shape:
        raise Declined
    zero = d.dtype.type(0)
    return {"X@GRAD": call.xp.where(condition, d, zero), "Y@GRAD": call.xp.where(condition, zero, d)}


def _where_index(call: Call) -> dict:
    x = call.array("Condition")
    return {"Out": call.xp.stack(call.xp.nonzero(x), 1).astype("int64").reshape(-1, x.ndim)}


def _masked_select(call: Call) -> dict:
    x, mask = call.array("X"), call.array("Mask")
    if mask.shape != x.shape or mask.dtype.name != "bool":
        raise Declined
    return {"Y": x[mask]}


def _masked_select_grad(call: Call) -> dict:
    mask, d = call.array("Mask"), call.array("Y@GRAD")
    dx = call.xp.zeros(mask.shape, d.dtype)
    dx[mask] = d
    return {"X@GRAD": dx}


def _pad(call: Call) -> dict:
    x, p = call.array("X"), call.attrs["paddings"]
    # bfloat16 is stored as uint16, to which pad_value cannot be converted.
    if len(p) != 2 * x.ndim or min(p, default=0) < 0 or x.dtype.name == "uint16":
        raise Declined
    pairs = list(zip(p[::2], p[1::2], strict=True))
    return {"Out": call.xp.pad(x, pairs, mode="constant", constant_values=number(call.attrs["pad_value"], x.dtype))}


def _pad_grad(call: Call) -> dict:
    d, p = call.array("Out@GRAD"), call.attrs["paddings"]
    if len(p) != 2 * d.ndim or min(p, default=0) < 0:
        raise Declined
    return {"X@GRAD": d[tuple(slice(a, n - b) for n, a, b in zip(d.shape, p[::2], p[1::2], strict=True))]}


def _one_part(call: Call) -> dict:
    x = call.array("X")
    return {"Out": call.xp.full((1,), math.prod(x.shape) == 0)}


LAUNCHERS = {
    "concat": _concat,
    "concat_grad": _concat_grad,
    "split": _split,
    "stack": _stack,
    "stack_grad": _apart("Y@GRAD", "X@GRAD"),
    "unstack": _apart("X", "Y"),
    "unstack_grad": _unstack_grad,
    "unbind": _apart("X", "Out"),
    **dict.fromkeys(("slice", "strided_slice"), _slice),
    **dict.fromkeys(("slice_grad", "strided_slice_grad"), _slice_grad),
    **dict.fromkeys(("expand_v2", "expand_as_v2"), _broadcast),
    **dict.fromkeys(("tile", "expand"), _tile),
    **dict.fromkeys(("tile_grad", "expand_grad", "expand_as_grad", "expand_v2_grad", "expand_as_v2_grad"), _sum_back),
    **dict.fromkeys(("fill_zeros_like", "fill_zeros_like2"), _filled(lambda a: 0)),
    **dict.fromkeys(("fill_constant", "fill_any_like", "fill_constant_batch_size_like"), _filled(_constant)),
    "where": _where,
    "where_grad": _where_grad,
    "where_index": _where_index,
    "masked_select": _masked_select,
    "masked_select_grad": _masked_select_grad,
    "pad": _pad,
    "pad_grad": _pad_grad,
    "is_empty": _one_part,
}
