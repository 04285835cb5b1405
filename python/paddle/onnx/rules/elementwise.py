"""Elementwise functions of two inputs, and sums of several."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call
from ..registry import rule

#: operator -> ONNX node
_SAME = {
    "elementwise_add": "Add",
    "grad_add": "Add",
    "elementwise_sub": "Sub",
    "elementwise_mul": "Mul",
    "elementwise_div": "Div",
    "elementwise_max": "Max",
    "elementwise_min": "Min",
    "elementwise_pow": "Pow",
    "minus": "Sub",
}


def operands(c: Call) -> tuple[str, str]:
    """X and Y with shapes that broadcast as numpy's do: attribute `axis` is the place of Y's first dimension in X."""
    x, y = c.x(), c.x("Y")
    ranks = c.rank(), c.rank("Y")
    axis = c.attr("axis") if c.desc.has_attr("axis") else -1
    if axis == -1 or ranks[0] == ranks[1]:
        return x, y
    (wide, narrow), slot = ranks if ranks[0] > ranks[1] else ranks[::-1], "Y" if ranks[0] > ranks[1] else "X"
    value = y if slot == "Y" else x
    behind = wide - axis - narrow
    if behind < 0:  # trailing ones of Y are ignored
        value = c.squeeze(value, list(range(narrow + behind, narrow)))
    else:
        value = c.unsqueeze(value, list(range(narrow, narrow + behind)))
    return (x, value) if slot == "Y" else (value, y)


def _register() -> None:
    def same(kind: str) -> Callable[[Call], None]:
        return lambda c: c.set("Out", c.op(kind, *operands(c)))

    for op_type, kind in _SAME.items():
        rule(op_type)(same(kind))


_register()


@rule("elementwise_mod")
def _mod(c: Call) -> None:
    x, y = operands(c)
    if c.is_float():
        c.set("Out", c.op("Sub", x, c.op("Mul", c.op("Floor", c.op("Div", x, y)), y)))
    else:
        c.set("Out", c.op("Mod", x, y))


@rule("elementwise_floordiv")
def _floordiv(c: Call) -> None:
    x, y = operands(c)
    if c.is_float():
        c.fail("operands have to be integers")
    c.set("Out", c.op("Div", x, y))


def total(c: Call, values: list[str]) -> str:
    """The sum of values."""
    if c.is_float() or len(values) == 1:
        return c.op("Sum" if c.is_float() else "Identity", *values)
    out = values[0]
    for value in values[1:]:
        out = c.op("Add", out, value)
    return out


@rule("sum")
def _sum(c: Call) -> None:
    c.set("Out", total(c, c.xs("X")))


@rule("partial_sum", "partial_concat")
def _partial(c: Call) -> None:
    start, length = c.attr("start_index"), c.attr("length")
    width = c.shape()[1]
    start += width if start < 0 else 0
    end = start + length if length >= 0 else 2**31 - 1
    parts = [c.slice(x, [1], [start], [end]) for x in c.xs("X")]
    c.set("Out", total(c, parts) if c.desc.type == "partial_sum" else c.op("Concat", *parts, axis=1))


@rule("cos_sim")
def _cos_sim(c: Call) -> None:
    def norm(x: str) -> str:
        return c.op("Max", c.op("Sqrt", c.reduce("SumSquare", x, axes, True)), c.like(1e-4))

    axes = list(range(1, c.rank()))
    x, y = c.x(), c.x("Y")
    norms = norm(x), norm(y)
    out = c.op("Div", c.reduce("Sum", c.op("Mul", x, y), axes, True), c.op("Mul", *norms))
    for slot, value in (("Out", out), ("XNorm", norms[0]), ("YNorm", norms[1])):
        c.set(slot, c.squeeze(value, axes[1:]))


@rule("label_smooth")
def _label_smooth(c: Call) -> None:
    epsilon, count = c.attr("epsilon"), c.shape()[-1]
    kept = c.op("Mul", c.x(), c.like(1 - epsilon))
    if c.has("PriorDist"):
        added = c.op("Mul", c.flat(c.x("PriorDist")), c.like(epsilon))
    elif count == -1:
        c.fail("the number of classes has to be known")
    else:
        added = c.like(epsilon / count)
    c.set("Out", c.op("Add", kept, added))


@rule("where")
def _where(c: Call) -> None:
    c.set("Out", c.op("Where", c.x("Condition"), c.x(), c.x("Y")))


@rule("increment")
def _increment(c: Call) -> None:
    c.set("Out", c.op("Add", c.x(), c.like(c.attr("step"))))


@rule("cross")
def _cross(c: Call) -> None:
    shape, axis = c.shape(), c.attr("dim")
    if axis == 9:
        if -1 in shape[: shape.index(3) if 3 in shape else None]:
            c.fail("the dimension of size 3 has to be known")
        axis = shape.index(3)
    axis %= len(shape)

    def rolled(x: str, first: int) -> str:
        return c.op("Gather", x, c.const([first, (first + 1) % 3, (first + 2) % 3]), axis=axis)

    x, y = c.x(), c.x("Y")
    c.set("Out", c.op("Sub", c.op("Mul", rolled(x, 1), rolled(y, 2)), c.op("Mul", rolled(x, 2), rolled(y, 1))))


@rule("kron")
def _kron(c: Call) -> None:
    x, y, ranks = c.x(), c.x("Y"), (c.rank(), c.rank("Y"))
    rank = max(ranks)
    x, y = c.unsqueeze(x, list(range(rank - ranks[0]))), c.unsqueeze(y, list(range(rank - ranks[1])))
    x = c.unsqueeze(x, [2 * i + 1 for i in range(rank)])
    y = c.unsqueeze(y, [2 * i for i in range(rank)])
    shapes = [[1] * (rank - r) + c.shape(s) for r, s in zip(ranks, ("X", "Y"), strict=True)]
    sizes = [-1 if -1 in pair else pair[0] * pair[1] for pair in zip(*shapes, strict=True)]
    if sizes.count(-1) > 1:
        c.fail("more than one unknown size")
    c.set("Out", c.reshape(c.op("Mul", x, y), sizes))
