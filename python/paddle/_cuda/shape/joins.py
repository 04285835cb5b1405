"""concat, split, stack, slice, expand, tile, fill, where and their gradients by moves between strided parts; pad and
masks by CuPy functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import conversion, strided
from ..call import Call, Declined, Rows, number, same_dtype
from ..math.reduction import reduce
from ..units import FLOATS


def _list(call: Call, slot: str, elements: bool = True) -> list:
    """The tensors of a duplicable input, of one data type; `elements` False accepts Shape objects."""
    values = call.ins[slot]
    if not values or any(v is None or isinstance(v, Rows) for v in values):
        raise Declined
    if elements and not all(hasattr(v, "reshape") for v in values):
        raise Declined
    same_dtype(*values)
    return values


def _join(call: Call, parts: list, axis: int):
    """The concatenation of contiguous arrays along an axis."""
    first = parts[0].shape
    if any(p.ndim != len(first) or (*p.shape[:axis], *p.shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :])
           for p in parts):  # fmt: skip
        raise Declined
    shape = (*first[:axis], sum(p.shape[axis] for p in parts), *first[axis + 1 :])
    out, strides, at = call.empty(shape, parts[0].dtype), strided.strides_of(shape), 0
    for p in parts:
        strided.move(call, p, out, p.shape, strided.strides_of(p.shape), strides, to=at * strides[axis])
        at += p.shape[axis]
    return out


def _parts(call: Call, x, sizes: list[int], axis: int) -> list:
    """Contiguous arrays of the given sizes along an axis, one after the other."""
    strides, made, at = strided.strides_of(x.shape), [], 0
    for n in sizes:
        shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
        made.append(strided.gathered(call, x, shape, strides, at * strides[axis]))
        at += n
    return made


def _concat(call: Call) -> dict:
    call.alone("X")
    parts = _list(call, "X")
    return {"Out": _join(call, parts, call.attrs["axis"] % max(parts[0].ndim, 1))}


def _concat_grad(call: Call) -> dict:
    call.alone("X", "Out@GRAD")
    parts, d = _list(call, "X", elements=False), call.array("Out@GRAD")
    axis = call.attrs["axis"] % max(d.ndim, 1)
    return {"X@GRAD": _parts(call, d, [v.shape[axis] for v in parts], axis)}


def _split(call: Call) -> dict:
    call.alone("X")
    x, a = call.array("X"), call.attrs
    axis = a["axis"] % max(x.ndim, 1)
    sizes = [x.shape[axis] // a["num"]] * a["num"] if a["num"] else list(a["sections"])
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(sizes) - 1
    return {"Out": _parts(call, x, sizes, axis)}


def _stacked(call: Call, parts: list):
    """The arrays joined along a new axis."""
    axis = call.attrs["axis"] % (parts[0].ndim + 1)
    return _join(call, [p.reshape((*p.shape[:axis], 1, *p.shape[axis:])) for p in parts], axis)


def _stack(call: Call) -> dict:
    return {"Y": _stacked(call, _list(call, "X"))}


def _apart(source: str, to: str) -> Callable[[Call], dict]:
    """The slices along an axis, which is removed."""

    def launch(call: Call) -> dict:
        x = call.array(source)
        axis = call.attrs["axis"] % x.ndim
        parts = _parts(call, x, [1] * x.shape[axis], axis)
        return {to: [p.reshape((*p.shape[:axis], *p.shape[axis + 1 :])) for p in parts]}

    return launch


def _unstack_grad(call: Call) -> dict:
    return {"X@GRAD": _stacked(call, _list(call, "Y@GRAD"))}


#: the inputs that may replace attributes of slice and strided_slice: the elements of a tensor, a list of tensors
_BOUNDS = tuple(f"{name}Tensor{kind}" for name in ("Starts", "Ends", "Strides") for kind in ("", "List"))


def _bounds(call: Call, name: str) -> list[int]:
    """The starts, ends or strides: of a tensor, of a list of tensors, or the attribute."""
    listed = call.ins.get(f"{name}TensorList")
    if listed:
        call.launched = None  # values of the device: no recipe
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


def _box(call: Call, shape: tuple[int, ...]) -> tuple[list[int], list[int], int]:
    """The sizes, strides and first element of the part that slice takes from a contiguous array."""
    part, strides = _cut(call, shape), strided.strides_of(shape)
    ranges = [range(*p.indices(n)) for p, n in zip(part, shape, strict=True)]
    start = sum(r.start * s for r, s in zip(ranges, strides, strict=True) if len(r))
    return [len(r) for r in ranges], [r.step * s for r, s in zip(ranges, strides, strict=True)], start


def _slice(call: Call) -> dict:
    call.alone("Input", *_BOUNDS)
    x = call.array("Input")
    sizes, strides, start = _box(call, x.shape)
    return {"Out": strided.gathered(call, x, sizes, strides, start).reshape(call.shape("Out"))}


def _slice_grad(call: Call) -> dict:
    call.alone("Input", "Out@GRAD", *_BOUNDS)
    x, d = call.ins["Input"], call.array("Out@GRAD")
    if x is None or isinstance(x, (Rows, list)):
        raise Declined
    sizes, strides, start = _box(call, tuple(x.shape))
    dx = strided.full(call, x.shape, d.dtype)
    strided.move(call, d, dx, sizes, strided.strides_of(sizes), strides, to=start)
    return {"Input@GRAD": dx}


def _broadcast(call: Call) -> dict:
    call.alone("X", "target_tensor", "Y")
    return {"Out": strided.expanded(call, call.array("X"), call.shape("Out"))}


def _tile(call: Call) -> dict:
    call.alone("X")
    x, shape = call.array("X"), call.shape("Out")
    times = list(call.attrs.get("repeat_times") or call.attrs.get("expand_times") or ())
    rank = max(x.ndim, len(times))
    own, times = (1,) * (rank - x.ndim) + x.shape, [1] * (rank - len(times)) + times
    sizes = [n for pair in zip(times, own, strict=True) for n in pair]
    strides = [n for s in strided.strides_of(own) for n in (0, s)]
    return {"Out": strided.gathered(call, x, sizes, strides).reshape(shape)}


def _sum_back(call: Call) -> dict:
    """The gradient of repetition: the sum over the copies of an element."""
    call.alone("X", "Y", "target_tensor", "Out@GRAD")
    x, d = call.ins["X"], call.array("Out@GRAD")
    if x is None or isinstance(x, (Rows, list)) or d.dtype.name not in FLOATS:
        raise Declined
    rank = max(len(x.shape), d.ndim)
    small, large = ((1,) * (rank - len(s)) + tuple(s) for s in (x.shape, d.shape))
    if 0 in large or any(b % a for a, b in zip(small, large, strict=True)):
        raise Declined
    pairs = [(b // a, a) for a, b in zip(small, large, strict=True)]
    apart = [n for pair in pairs for n in pair]
    axes = [2 * i for i, (times, _) in enumerate(pairs) if times > 1]
    total = reduce(call, d.reshape(apart), axes, "Sum", 1) if axes else d
    return {"X@GRAD": total.reshape(x.shape)}


def _filled(value: Callable[[dict], Any]) -> Callable[[Call], dict]:
    """A launcher that fills a tensor of the inferred shape and data type with one value."""

    def launch(call: Call) -> dict:
        call.alone("X", "Input")
        shape, dtype = call.shape("Out"), call._rule["Out"][1]
        if dtype.startswith("complex"):
            return {"Out": call.xp.full(shape, number(value(call.attrs), dtype), dtype)}
        if dtype == "bfloat16":
            wide = strided.full(call, shape, "float32", value(call.attrs))
            return {"Out": conversion.convert(call, wide, "uint16")}
        return {"Out": strided.full(call, shape, dtype, value(call.attrs))}

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
    return {"Out": _select(call, condition, x, y)}


def _select(call: Call, condition, x, y):
    """The elements of x where the condition holds, of y elsewhere; None: zeros."""
    if condition.dtype.name != "bool":
        raise Declined
    zero = (y if x is None else x).dtype.type(0)
    return call.xp.where(condition, *(zero if v is None else v for v in (x, y)))


def _where_grad(call: Call) -> dict:
    condition, d = call.array("Condition"), call.array("Out@GRAD")
    if condition.shape != d.shape:
        raise Declined
    made = {"X@GRAD": (d, None), "Y@GRAD": (None, d)}
    return {slot: _select(call, condition, *values) for slot, values in made.items() if call.wanted[slot]}


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
