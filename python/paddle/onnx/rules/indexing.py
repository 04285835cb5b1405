"""Reads and writes by index."""

from __future__ import annotations

from paddle._basics.dtypes import VarType

from ..call import Call
from ..graph import Graph
from ..proto import ValueType
from ..registry import rule


@rule("lookup_table", "lookup_table_v2")
def _lookup(c: Call) -> None:
    ids, rank = c.x("Ids"), c.rank("Ids")
    if c.desc.type == "lookup_table":
        ids = c.squeeze(ids, [rank - 1])
    out, padding = c.op("Gather", c.x("W"), ids, axis=0), c.attr("padding_idx")
    if padding != -1:
        padding += c.shape("W")[0] if padding < 0 else 0
        real = c.op("Not", c.op("Equal", ids, c.const(padding, c.dtype("Ids"))))
        rows = rank - 1 if c.desc.type == "lookup_table" else rank
        out = c.op("Where", c.unsqueeze(real, [rows]), out, c.like(0.0, "W"))
    c.set("Out", out)


def _indices(c: Call, slot: str) -> str:
    """An index of shape [n] or [n, 1], as [n]."""
    return c.flat(c.x(slot)) if c.rank(slot) > 1 else c.x(slot)


@rule("gather")
def _gather(c: Call) -> None:
    axis = c.constant_ints("the axis", c.flat_ints("Axis"))[0] if c.has("Axis") else 0
    c.set("Out", c.op("Gather", c.x(), _indices(c, "Index"), axis=axis))


@rule("index_select")
def _index_select(c: Call) -> None:
    c.set("Out", c.op("Gather", c.x(), _indices(c, "Index"), axis=c.attr("dim")))


@rule("gather_nd")
def _gather_nd(c: Call) -> None:
    if c.shape("Index")[-1] == 0:
        c.fail("an index without coordinates has no rule")
    c.set("Out", c.op("GatherND", c.x(), c.cast(c.x("Index"), "int64")))


@rule("index_sample")
def _index_sample(c: Call) -> None:
    c.set("Out", c.op("GatherElements", c.x(), c.x("Index"), axis=1))


def _added(c: Call, target: str, index: str, updates: str) -> str:
    """The target plus updates at an index, where coordinates may occur several times."""
    if c.opset >= 16:
        return c.op("ScatterND", target, index, updates, reduction="add")
    return c.fail("a sum at equal indices requires opset 16 or later")


@rule("scatter")
def _scatter(c: Call) -> None:
    index = c.unsqueeze(c.cast(_indices(c, "Ids"), "int64"), [1])
    x, updates = c.x(), c.x("Updates")
    if c.attr("overwrite"):
        c.set("Out", c.op("ScatterND", x, index, updates))
        return
    zeros = c.op("Mul", updates, c.like(0.0, "Updates"))
    c.set("Out", _added(c, c.op("ScatterND", x, index, zeros), index, updates))


@rule("scatter_nd_add")
def _scatter_nd_add(c: Call) -> None:
    c.set("Out", _added(c, c.x(), c.cast(c.x("Index"), "int64"), c.x("Updates")))


@rule("where_index")
def _where_index(c: Call) -> None:
    c.set("Out", c.transpose(c.op("NonZero", c.x("Condition")), [1, 0]))


@rule("masked_select")
def _masked_select(c: Call) -> None:
    c.set("Y", c.op("Compress", c.flat(c.x()), c.flat(c.x("Mask")), axis=0))


@rule("one_hot", "one_hot_v2")
def _one_hot(c: Call) -> None:
    ids = c.x()
    if c.desc.type == "one_hot":
        ids = c.squeeze(ids, [c.rank() - 1])
    depth = c.flat(c.cast(c.x("depth_tensor"), "int64")) if c.has("depth_tensor") else c.const([c.attr("depth")])
    dtype = c.element_type()
    # ONNX counts negative indices from the end
    ids = c.cast(ids, "int64")
    if c.attr("allow_out_of_range"):
        ids = c.op("Where", c.op("Less", ids, c.const(0)), c.const(2**31), ids)
    out = c.op("OneHot", ids, depth, c.const([0, 1], "float32"), axis=-1)
    c.set("Out", c.cast(out, dtype) if dtype != "float32" else out)


@rule("multiplex")
def _multiplex(c: Call) -> None:
    values = [c.unsqueeze(x, [0]) for x in c.xs("X")]
    stacked = c.op("Concat", *values, axis=0)
    ids = c.cast(c.flat(c.x("Ids")), "int64")
    last = c.cast(c.op("Size", ids), "int64")
    rows = c.op("Range", c.const(0), last, c.const(1))
    c.set("Out", c.op("GatherND", stacked, c.op("Concat", c.unsqueeze(ids, [1]), c.unsqueeze(rows, [1]), axis=1)))


@rule("sequence_mask")
def _sequence_mask(c: Call) -> None:
    x = c.cast(c.x(), "int64")
    if c.has("MaxLenTensor"):
        length = c.reshape(c.cast(c.x("MaxLenTensor"), "int64"), [])
    elif c.attr("maxlen") >= 0:
        length = c.const(c.attr("maxlen"))
    else:
        length = c.reduce("Max", x, None, False)
    columns = c.op("Range", c.const(0), length, c.const(1))
    mask = c.op("Less", columns, c.unsqueeze(x, [c.rank()]))
    c.set("Y", c.cast(mask, c.element_type("out_dtype")))


@rule("gather_tree")
def _gather_tree(c: Call) -> None:
    """From the last step to the first: each beam's id, and the beam it came from."""
    kind = c.var(c.names("Ids")[0]).dtype
    ids, parents = c.x("Ids"), c.cast(c.x("Parents"), "int64")
    body = Graph(c.graph.root)
    beam, step_ids, step_parents = (body.root.new(f"tree.{name}") for name in ("beam", "ids", "parents"))
    long = ValueType(VarType.INT64)
    body.inputs = [(beam, long), (step_ids, ValueType(kind)), (step_parents, long)]
    chosen = body.add("GatherElements", [step_ids, beam], axis=1)[0]
    before = body.add("GatherElements", [step_parents, beam], axis=1)[0]
    body.outputs = [(before, long), (chosen, ValueType(kind))]
    # the beams of the last step: 0, 1, ... in each row
    width = c.shape("Ids")[2]
    if width == -1:
        c.fail("the number of beams has to be known")
    rows = c.op("Concat", c.size(1, "Ids"), c.const([width]), axis=0)
    first = c.op("Expand", c.const([list(range(width))]), rows)
    scanned = c.ops(
        "Scan",
        first,
        ids,
        parents,
        outputs=2,
        body=body,
        num_scan_inputs=2,
        scan_input_directions=[1, 1],
        scan_output_directions=[1],
    )
    c.set("Out", scanned[1])
