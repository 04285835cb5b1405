"""Order: argmax, argsort, top k, unique."""

from __future__ import annotations

from ..call import Call
from ..registry import rule


@rule("arg_max", "arg_min")
def _arg(c: Call) -> None:
    kind = "ArgMax" if c.desc.type == "arg_max" else "ArgMin"
    x, axis, keep = c.x(), c.attr("axis"), c.attr("keepdims")
    name = c.element_type() if c.attr("dtype") >= 0 else "int64"
    if c.attr("flatten") or c.rank() == 1:
        out = c.op(kind, c.flat(x), axis=0, keepdims=1)
        if keep and c.rank() > 1:
            out = c.reshape(out, [1] * c.rank())
    else:
        out = c.op(kind, x, axis=axis % c.rank(), keepdims=int(keep))
    c.set("Out", out if name == "int64" else c.cast(out, name))


@rule("argsort")
def _argsort(c: Call) -> None:
    axis = c.attr("axis") % c.rank()
    count = c.size(axis)
    values = c.ops("TopK", c.x(), count, outputs=2, axis=axis, largest=int(c.attr("descending")))
    c.set("Out", values[0])
    c.set("Indices", values[1])


@rule("top_k", "top_k_v2")
def _top_k(c: Call) -> None:
    count = c.flat(c.cast(c.x("K"), "int64")) if c.has("K") else c.const([c.attr("k")])
    second = c.desc.type == "top_k_v2"
    axis = (c.attr("axis") if second else -1) % c.rank()
    attrs = {"largest": int(c.attr("largest")), "sorted": int(c.attr("sorted"))} if second else {}
    values = c.ops("TopK", c.x(), count, outputs=2, axis=axis, **attrs)
    c.set("Out", values[0])
    c.set("Indices", values[1])


@rule("unique")
def _unique(c: Call) -> None:
    if not c.attr("is_sorted"):
        c.fail("only sorted results (paddle.unique) have a rule")
    axis = c.attr("axis")
    attrs = {"axis": int(axis[0])} if axis else {}
    values = c.ops("Unique", c.x(), outputs=4, sorted=1, **attrs)
    dtype = c.element_type()
    c.set("Out", values[0])
    for slot, value in (("Indices", values[1]), ("Index", values[2]), ("Counts", values[3])):
        c.set(slot, value if dtype == "int64" else c.cast(value, dtype))


@rule("unique_with_counts")
def _unique_with_counts(c: Call) -> None:
    values = c.ops("Unique", c.x(), outputs=4, sorted=0)
    dtype = c.element_type()
    c.set("Out", values[0])
    c.set("Index", c.cast(values[2], dtype))
    c.set("Count", c.cast(values[3], dtype))


@rule("accuracy")
def _accuracy(c: Call) -> None:
    hits = c.op("Equal", c.cast(c.x("Indices"), "int64"), c.cast(c.x("Label"), "int64"))
    rows = c.reduce("Max", c.cast(hits, "int32"), [1], False)
    correct = c.reshape(c.reduce("Sum", rows, None, False), [1])
    total = c.size(0, "Indices")
    ratio = c.op("Div", c.cast(correct, "float32"), c.cast(total, "float32"))
    c.set("Accuracy", ratio)
    c.set("Correct", correct)
    c.set("Total", c.cast(total, "int32"))
