"""Tensors from attributes and shapes, diagonals, padding, cropping and partial copies, by CuPy functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, Rows, number
from ..math.gemm import product


def _shape_of(call: Call, slot: str) -> tuple[int, ...]:
    value = call.ins.get(slot)
    if value is None or isinstance(value, (Rows, list)):
        raise Declined
    return tuple(value.shape)


def _given(call: Call, names: tuple[str, ...], dtype: str):
    """The list attribute that has elements, as a device array."""
    for name in names:
        if call.attrs[name]:
            return call.xp.asarray(np.asarray(call.attrs[name]).astype(dtype))
    return call.xp.zeros(0, dtype)


_VALUES = ("bool_values", "fp32_values", "int32_values", "int64_values")


def _assign_value(call: Call) -> dict:
    return {"Out": _given(call, _VALUES, call.dtype("Out")).reshape(call.shape("Out"))}


def _fill(call: Call) -> dict:
    if call.attrs["force_cpu"]:
        raise Declined
    values = np.asarray(call.attrs["value"]).astype(call.dtype("Out"))
    return {"Out": call.xp.asarray(values).reshape(call.shape("Out"))}


def _empty(call: Call) -> dict:
    call.alone()
    return {"Out": call.empty(call.shape("Out"), call.dtype("Out"))}


def _eye(call: Call) -> dict:
    n, m = call.shape("Out")
    return {"Out": call.xp.eye(n, m, dtype=call.dtype("Out"))}


def _size(call: Call) -> dict:
    return {"Out": call.xp.full(call.shape("Out"), math.prod(_shape_of(call, "Input")), call.dtype("Out"))}


def _meshgrid(call: Call) -> dict:
    parts = call.ins["X"]
    shape = tuple(p.size for p in parts)
    made = []
    for i, p in enumerate(parts):
        seen = [1] * len(parts)
        seen[i] = p.size
        made.append(call.xp.ascontiguousarray(call.xp.broadcast_to(p.reshape(seen), shape)))
    return {"Out": made}


def _meshgrid_grad(call: Call) -> dict:
    made = []
    for i, (d, x) in enumerate(zip(call.ins["Out@GRAD"], call.ins["X"], strict=True)):
        made.append(d.sum(axis=tuple(k for k in range(d.ndim) if k != i)).reshape(x.shape))
    return {"X@GRAD": made}


def _diagonal_matrix(xp, values, offset: int, fill):
    n = values.shape[0] + abs(offset)
    at = xp.arange(n)
    inside = at.reshape(-1, 1) + offset == at
    k = xp.clip(xp.minimum(at.reshape(-1, 1), at), 0, max(values.shape[0] - 1, 0))
    return xp.where(inside, xp.take(values, k), fill)


def _diag(call: Call) -> dict:
    x = call.array("Diagonal")
    if x.size == 0:
        raise Declined
    return {"Out": _diagonal_matrix(call.xp, x.reshape(-1), 0, x.dtype.type(0))}


def _diag_v2(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    if x.size == 0:
        raise Declined
    if x.ndim == 2:
        return {"Out": call.xp.diagonal(x, a["offset"])}
    return {"Out": _diagonal_matrix(call.xp, x, a["offset"], number(a["padding_value"], x.dtype))}


def _diag_embed(call: Call) -> dict:
    x, a, xp, shape = call.array("Input"), call.attrs, call.xp, call.shape("Out")
    if x.size == 0:
        raise Declined
    offset, n = a["offset"], x.shape[-1] + abs(a["offset"])
    at = xp.arange(n)
    row, column = at.reshape(-1, 1), at
    inside = row + offset == column
    k = xp.clip(row if offset >= 0 else column + 0 * row, 0, x.shape[-1] - 1) + 0 * column
    out = xp.where(inside, xp.take(x, k, axis=-1), x.dtype.type(0))
    dims = tuple(d % len(shape) for d in (a["dim1"], a["dim2"]))
    return {"Out": xp.moveaxis(out, (-2, -1), dims)}


def _trace(call: Call) -> dict:
    x, a = call.array("Input"), call.attrs
    # The smaller axis has the rows, as on the CPU.
    found = call.xp.diagonal(x, a["offset"], *sorted(a[k] % x.ndim for k in ("axis1", "axis2")))
    return {"Out": call.xp.asarray(found.sum(axis=-1, dtype=x.dtype)).reshape(call.shape("Out"))}


def _trace_grad(call: Call) -> dict:
    shape, d, a, xp = _shape_of(call, "Input"), call.array("Out@GRAD"), call.attrs, call.xp
    i, j = sorted(a[k] % len(shape) for k in ("axis1", "axis2"))
    place = [1] * len(shape)
    place[i] = shape[i]
    rows = xp.arange(shape[i]).reshape(place)
    place[i], place[j] = 1, shape[j]
    columns = xp.arange(shape[j]).reshape(place)
    rest = [1 if k in (i, j) else n for k, n in enumerate(shape)]
    return {"Input@GRAD": xp.where(rows + a["offset"] == columns, d.reshape(rest), xp.zeros(1, d.dtype))}


def _box(starts, sizes) -> tuple[slice, ...]:
    return tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))


def _pad_like(call: Call) -> dict:
    shape, y, xp = _shape_of(call, "X"), call.array("Y"), call.xp
    out = xp.full(shape, number(call.attrs["pad_value"], y.dtype), y.dtype)
    out[_box([0] * y.ndim, y.shape)] = y
    return {"Out": out}


def _pad_like_grad(call: Call) -> dict:
    shape, d = _shape_of(call, "Y"), call.array("Out@GRAD")
    return {"Y@GRAD": d[_box([0] * len(shape), shape)]}


def _crop(call: Call) -> dict:
    call.alone("X", "Y")
    x, shape = call.array("X"), call.shape("Out")
    offsets = list(call.attrs["offsets"]) or [0] * x.ndim
    if len(offsets) != x.ndim or any(o + n > m for o, n, m in zip(offsets, shape, x.shape, strict=True)):
        raise Declined
    return {"Out": x[_box(offsets, shape)]}


def _crop_grad(call: Call) -> dict:
    call.alone("X", "Out@GRAD")
    shape, d = _shape_of(call, "X"), call.array("Out@GRAD")
    offsets = list(call.attrs["offsets"]) or [0] * d.ndim
    if len(offsets) != d.ndim:
        raise Declined
    out = call.xp.zeros(shape, d.dtype)
    out[_box(offsets, d.shape)] = d
    return {"X@GRAD": out}


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}


def _source(xp, n: int, before: int, after: int, mode: str):
    """The position that each element of a padded dimension reads, and which ones are inside."""
    at = xp.arange(n + before + after) - before
    inside = (at >= 0) & (at < n)
    if mode == "reflect":
        at = xp.where(at < 0, -at, at)
        at = xp.where(at >= n, 2 * (n - 1) - at, at)
    elif mode == "wrap":
        at = at % max(n, 1)
    return xp.clip(at, 0, max(n - 1, 0)), inside


def _spatial(call: Call):
    """Paddings of the spatial dimensions as (axis, before, after)."""
    call.alone("X", "Out@GRAD")
    p, layout = call.attrs["paddings"], call.attrs["data_format"]
    rank = len(layout)
    axes = [i for i, c in enumerate(layout) if c not in "NC"]
    if len(p) != 2 * len(axes):
        raise Declined
    # pad2d lists pairs from the first dimension, pad3d from the last.
    pairs = list(zip(p[::2], p[1::2], strict=True))
    pairs = pairs if rank == 4 else pairs[::-1]
    if any(v < 0 for pair in pairs for v in pair):
        raise Declined
    return [(axis, *pair) for axis, pair in zip(axes, pairs, strict=True)]


def _pad_space(call: Call) -> dict:
    x, xp, mode = call.array("X"), call.xp, _MODES[call.attrs["mode"]]
    if x.size == 0:
        raise Declined
    fill = number(call.attrs["pad_value" if "pad_value" in call.attrs else "value"], x.dtype)
    for axis, before, after in _spatial(call):
        at, inside = _source(xp, x.shape[axis], before, after, mode)
        x = xp.take(x, at, axis=axis)
        if mode == "constant":
            place = [1] * x.ndim
            place[axis] = -1
            x = xp.where(inside.reshape(place), x, fill)
    return {"Out": x}


def _pad_space_grad(call: Call) -> dict:
    d, xp, mode, shape = call.array("Out@GRAD"), call.xp, _MODES[call.attrs["mode"]], _shape_of(call, "X")
    if 0 in shape or d.dtype.kind != "f":
        raise Declined
    for axis, before, after in _spatial(call):
        n = shape[axis]
        if mode == "constant":
            d = xp.take(d, xp.arange(before, before + n), axis=axis)
            continue
        at, _ = _source(xp, n, before, after, mode)
        matrix = (at.reshape(-1, 1) == xp.arange(n)).astype(d.dtype)
        d = xp.moveaxis(product(call, xp.moveaxis(d, axis, -1), matrix), -1, axis)
    return {"X@GRAD": d}


def _part(call: Call, x) -> tuple[int, int]:
    a, n = call.attrs, x.shape[1]
    start = a["start_index"] + (n if a["start_index"] < 0 else 0)
    return start, n if a["length"] < 0 else start + a["length"]


def _partial(join: Callable) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        parts = call.ins["X"]
        return {"Out": join(call.xp, [p[:, slice(*_part(call, p))] for p in parts])}

    return launch


def _total(xp, parts):
    out = parts[0].copy()
    for p in parts[1:]:
        out = out + p
    return out


def _partial_grad(call: Call) -> dict:
    d, made, at = call.array("Out@GRAD"), [], 0
    for x in call.ins["X"]:
        start, end = _part(call, x)
        out = call.xp.zeros(x.shape, d.dtype)
        if call.op == "partial_concat_grad":
            out[:, start:end] = d[:, at : at + end - start]
            at += end - start
        else:
            out[:, start:end] = d
        made.append(out)
    return {"X@GRAD": made}


def _expand_as(call: Call) -> dict:
    x, shape = call.array("X"), _shape_of(call, "target_tensor")
    times = tuple(b // a for a, b in zip(x.shape, shape, strict=True))
    return {"Out": call.xp.tile(x, times)}


def _replaced(call: Call, shape) -> tuple[slice, ...]:
    """The elements that set_value replaces."""
    a, part = call.attrs, [slice(None)] * len(shape)
    for axis, start, end in zip(a["axes"], a["starts"], a["ends"], strict=True):
        n = shape[axis]
        part[axis] = slice(max(start + n, 0) if start < 0 else start, max(end + n, 0) if end < 0 else end)
    return tuple(part)


def _set_value(call: Call) -> dict:
    """The box of X between starts and ends replaced by a tensor or by listed values."""
    x, a = call.array("Input"), call.attrs
    out, part = call.old("Out"), _replaced(call, x.shape)
    value = call.ins.get("ValueTensor")
    if value is None:
        names = ("bool_values", "fp32_values", "int32_values", "int64_values", "fp64_values")
        value = _given(call, names, out.dtype).reshape(tuple(a["shape"]))
    box = out[part]
    while value.ndim > box.ndim and value.shape[0] == 1:
        value = value[0]
    out[part] = value
    return {"Out": out}


def _set_value_grad(call: Call) -> dict:
    """X has the gradient outside the box, the value the sum of the box over the axes of broadcasting."""
    d, value = call.array("Out@GRAD"), call.ins.get("ValueTensor")
    part = _replaced(call, d.shape)
    dx = d.copy()
    dx[part] = 0
    made = {"Input@GRAD": dx}
    if value is not None and call.wanted["ValueTensor@GRAD"]:
        box, shape = d[part], tuple(value.shape)
        if d.dtype.kind != "f":
            raise Declined
        small = shape[max(len(shape) - box.ndim, 0) :]
        small = (1,) * (box.ndim - len(small)) + small
        axes = tuple(i for i, n in enumerate(small) if n == 1 and box.shape[i] != 1)
        made["ValueTensor@GRAD"] = (box.sum(axis=axes) if axes else box).reshape(shape)
    return made


def _copied(source: str, to: str) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        return {to: call.array(source).copy()}

    return launch


def _blocks(call: Call) -> dict:
    """space_to_depth with Paddle's order: channels become squares of pixels, then the result is reshaped."""
    x, b = call.array("X"), call.attrs["blocksize"]
    n, c, h, w = x.shape
    if x.size == 0:
        raise Declined
    out = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return {"Out": out.reshape(call.shape("Out"))}


def _blocks_grad(call: Call) -> dict:
    d, b, shape = call.array("Out@GRAD"), call.attrs["blocksize"], _shape_of(call, "X")
    n, c, h, w = shape
    if d.size == 0:
        raise Declined
    out = d.reshape(n, c // (b * b), h, b, w, b).transpose(0, 3, 5, 1, 2, 4)
    return {"X@GRAD": out.reshape(shape)}


def _shifted(sign: int, source: str, to: str) -> Callable[[Call], dict]:
    """temporal_shift: a part of the channels comes from the previous segment, another one from the next."""

    def launch(call: Call) -> dict:
        x, a, xp = call.array(source), call.attrs, call.xp
        nt, c, h, w = x.shape
        segments = a["seg_num"]
        first, second = int(c * a["shift_ratio"]), int(c * 2 * a["shift_ratio"])
        x = x.reshape(nt // segments, segments, c, h, w)
        out = xp.zeros(x.shape, x.dtype)
        for part, step in ((slice(0, first), sign), (slice(first, second), -sign)):
            if step > 0:
                out[:, 1:, part] = x[:, :-1, part]
            else:
                out[:, :-1, part] = x[:, 1:, part]
        out[:, :, second:] = x[:, :, second:]
        return {to: out.reshape(nt, c, h, w)}

    return launch


def _unique(call: Call) -> dict:
    """unique of a flat tensor in the order of first occurrence (version 1)."""
    x, xp, a = call.array("X"), call.xp, call.attrs
    if x.ndim != 1 or a.get("is_sorted") or x.size == 0:
        raise Declined
    values, first, inverse, counts = xp.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = xp.argsort(first)
    rank = xp.argsort(order)
    made = {"Out": values[order], "Index": rank[inverse.reshape(-1)].astype(call.dtype("Index"))}
    if call.op == "unique_with_counts":
        made["Count"] = counts[order].astype(call.dtype("Count"))
    return made


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "assign_value": _assign_value,
    "fill": _fill,
    "empty": _empty,
    "eye": _eye,
    "size": _size,
    "meshgrid": _meshgrid,
    "meshgrid_grad": _meshgrid_grad,
    "diag": _diag,
    "diag_v2": _diag_v2,
    "diag_embed": _diag_embed,
    "trace": _trace,
    "trace_grad": _trace_grad,
    "pad_constant_like": _pad_like,
    "pad_constant_like_grad": _pad_like_grad,
    **dict.fromkeys(("crop", "crop_tensor"), _crop),
    **dict.fromkeys(("crop_grad", "crop_tensor_grad"), _crop_grad),
    **dict.fromkeys(("pad2d", "pad3d"), _pad_space),
    **dict.fromkeys(("pad2d_grad", "pad3d_grad"), _pad_space_grad),
    "partial_concat": _partial(lambda xp, parts: xp.concatenate(parts, 1)),
    "partial_sum": _partial(_total),
    **dict.fromkeys(("partial_concat_grad", "partial_sum_grad"), _partial_grad),
    "expand_as": _expand_as,
    "set_value": _set_value,
    "set_value_grad": _set_value_grad,
    "rnn_memory_helper": _copied("X", "Out"),
    **dict.fromkeys(("rnn_memory_helper_grad", "lod_reset_grad"), _copied("Out@GRAD", "X@GRAD")),
    "space_to_depth": _blocks,
    "space_to_depth_grad": _blocks_grad,
    "temporal_shift": _shifted(1, "X", "Out"),
    "temporal_shift_grad": _shifted(-1, "Out@GRAD", "X@GRAD"),
    "unique": _unique,
    "unique_with_counts": _unique,
}
