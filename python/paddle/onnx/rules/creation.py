"""Constants, ranges, diagonals."""

from __future__ import annotations

import numpy as np

from ..call import Call
from ..registry import rule


def _filled_type(c: Call) -> str:
    """numpy's name of the type of a constant."""
    dtype = c.element_type()
    if dtype == "uint16":
        c.fail("values of type bfloat16 have no rule")
    return dtype


def _value(c: Call) -> float:
    text = c.attr("str_value")
    return float(text) if text else c.attr("value")


@rule("fill_constant")
def _fill_constant(c: Call) -> None:
    dtype = _filled_type(c)
    shape = c.ints("shape", "ShapeTensor", "ShapeTensorList")
    if c.has("ValueTensor"):
        size = c.const(shape) if isinstance(shape, list) else shape
        c.set("Out", c.op("Expand", c.cast(c.flat(c.x("ValueTensor")), dtype), size))
        return
    text = c.attr("str_value")
    value = int(text) if text.lstrip("-").isdigit() and "int" in dtype else _value(c)
    c.set("Out", c.full(shape, value, dtype))


@rule("fill_constant_batch_size_like")
def _fill_like_batch(c: Call) -> None:
    dtype, value = _filled_type(c), _value(c)
    shape = [int(n) for n in c.attr("shape")]
    at, size = c.attr("output_dim_idx"), c.size(c.attr("input_dim_idx"), "Input")
    parts = [c.const(shape[:at])] if at else []
    parts += [size] + ([c.const(shape[at + 1 :])] if shape[at + 1 :] else [])
    c.set("Out", c.full(c.op("Concat", *parts, axis=0) if len(parts) > 1 else size, value, dtype))


@rule("fill_any_like", "fill_zeros_like", "fill_zeros_like2")
def _fill_any_like(c: Call) -> None:
    dtype = c.dtype()
    if c.desc.type == "fill_any_like" and c.attr("dtype") >= 0:
        dtype = _filled_type(c)
    value = c.attr("value") if c.desc.type == "fill_any_like" else 0
    c.set("Out", c.full(c.sizes(), value, dtype))


@rule("empty")
def _empty(c: Call) -> None:
    c.set("Out", c.full(c.ints("shape", "ShapeTensor", "ShapeTensorList"), 0, _filled_type(c)))


@rule("assign_value")
def _assign_value(c: Call) -> None:
    dtype = _filled_type(c)
    names = {"bool": "bool_values", "float32": "fp32_values", "int32": "int32_values", "int64": "int64_values"}
    if dtype not in names:
        c.fail(f"values of type {dtype} have no rule")
    c.set("Out", c.const(np.array(c.attr(names[dtype])).reshape(c.attr("shape")), dtype))


@rule("fill")
def _fill(c: Call) -> None:
    c.set("Out", c.const(np.array(c.attr("value")).reshape(c.attr("shape")), _filled_type(c)))


@rule("range")
def _range(c: Call) -> None:
    start, end, step = (c.reshape(c.x(slot), []) for slot in ("Start", "End", "Step"))
    known = [c.known(v) for v in (start, end, step)]
    if all(k is not None for k in known):
        c.set("Out", c.const(np.arange(*(k.item() for k in known if k is not None)), c.dtype("Start")))
        return
    c.set("Out", c.op("Range", start, end, step))


@rule("linspace")
def _linspace(c: Call) -> None:
    dtype = _filled_type(c)
    ends = (c.cast(c.reshape(c.x(slot), [1]), dtype) for slot in ("Start", "Stop"))
    start, stop = (c.cast(end, "float64") for end in ends)
    count = c.reshape(c.cast(c.x("Num"), "int64"), [])
    steps = c.cast(c.op("Range", c.const(0), count, c.const(1)), "float64")
    last = c.op("Max", c.cast(c.op("Sub", count, c.const(1)), "float64"), c.const(1.0, "float64"))
    step = c.op("Div", c.op("Sub", stop, start), last)
    c.set("Out", c.cast(c.op("Add", start, c.op("Mul", steps, step)), dtype))


@rule("eye")
def _eye(c: Call) -> None:
    columns = c.attr("num_columns")
    rows = c.attr("num_rows")
    c.set("Out", c.const(np.eye(rows, rows if columns == -1 else columns), _filled_type(c)))


@rule("tril_triu")
def _tril_triu(c: Call) -> None:
    lower, diagonal_, shape = c.attr("lower"), c.attr("diagonal"), c.shape()
    if c.opset >= 14:
        c.set("Out", c.op("Trilu", c.x(), c.const(diagonal_), upper=int(not lower)))
        return
    if -1 in shape[-2:]:
        c.fail("unknown sizes require opset 14 or later")
    mask = (np.tril if lower else np.triu)(np.ones(shape[-2:]), diagonal_)
    if c.dtype() == "bool":
        c.set("Out", c.op("And", c.x(), c.const(mask, "bool")))
    else:
        c.set("Out", c.op("Mul", c.x(), c.const(mask, c.dtype())))


def diagonal(c: Call, x: str, shape: list[int], offset: int, first: int, second: int) -> str:
    """The diagonal of two dimensions, with its length as the last but one dimension and 1 as the last."""
    first, second = first % len(shape), second % len(shape)
    rows, columns = shape[first], shape[second]
    if -1 in (rows, columns):
        c.fail("sizes of the diagonal's dimensions have to be known")
    x = c.transpose(x, [a for a in range(len(shape)) if a not in (first, second)] + [first, second])
    mask = np.eye(rows, columns, offset)
    length = int(mask.sum())
    kept = c.reduce(
        "Sum",
        c.op("Where", c.const(mask, "bool"), x, c.like(0, "Input" if c.has("Input") else "X")),
        [len(shape) - 1],
        True,
    )
    begin = max(-offset, 0)
    return c.slice(kept, [len(shape) - 2], [begin], [begin + length])


def _spread(c: Call, x: str, rank: int, size: int, offset: int, fill: float, slot: str) -> str:
    """Square matrices with the last dimension on a diagonal."""
    n = size + abs(offset)
    rows = c.unsqueeze(x, [rank])  # [.., size, 1]
    pads = [0] * (2 * (rank + 1))
    pads[rank - 1], pads[2 * rank] = max(-offset, 0), max(offset, 0)
    rows = c.op("Pad", rows, c.const(pads), c.like(0, slot))
    return c.op("Where", c.const(np.eye(n, n, offset), "bool"), rows, c.like(fill, slot))


@rule("diag")
def _diag(c: Call) -> None:
    size = c.shape("Diagonal")[-1]
    c.set("Out", _spread(c, c.flat(c.x("Diagonal")), 1, size, 0, 0, "Diagonal"))


@rule("diag_v2")
def _diag_v2(c: Call) -> None:
    shape, offset = c.shape(), c.attr("offset")
    if -1 in shape:
        c.fail("sizes have to be known")
    if len(shape) == 1:
        c.set("Out", _spread(c, c.x(), 1, shape[0], offset, c.attr("padding_value"), "X"))
    else:
        c.set("Out", c.flat(diagonal(c, c.x(), shape, offset, 0, 1)))


@rule("diag_embed")
def _diag_embed(c: Call) -> None:
    shape, rank = c.shape("Input"), c.rank("Input")
    if shape[-1] == -1:
        c.fail("the last size has to be known")
    out = _spread(c, c.x("Input"), rank, shape[-1], c.attr("offset"), 0, "Input")
    first, second = c.attr("dim1") % (rank + 1), c.attr("dim2") % (rank + 1)
    perm: list[int] = list(range(rank - 1))
    order = sorted([(first, rank - 1), (second, rank)])
    for place, axis in order:
        perm.insert(place, axis)
    c.set("Out", c.transpose(out, perm))


@rule("add_position_encoding")
def _add_position_encoding(c: Call) -> None:
    _, length, width = c.shape()
    if -1 in (length, width):
        c.fail("sizes have to be known")
    half = width // 2
    position, column = np.arange(length)[:, None], np.arange(half)[None, :]
    angle = position / np.power(10000.0, column / (half - 1)) if half > 1 else position / 10000.0 + column
    encoding = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    added = c.const(encoding * c.attr("beta"), c.dtype())
    c.set("Out", c.op("Add", c.op("Mul", c.x(), c.like(c.attr("alpha"))), added))
