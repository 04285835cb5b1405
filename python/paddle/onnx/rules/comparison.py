"""Comparisons, logic and predicates."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call
from ..registry import rule
from .elementwise import operands

#: operator -> (ONNX node, whether its result is negated)
_COMPARISONS = {
    "equal": ("Equal", False),
    "not_equal": ("Equal", True),
    "less_than": ("Less", False),
    "greater_than": ("Greater", False),
    "less_equal": ("LessOrEqual", False),
    "greater_equal": ("GreaterOrEqual", False),
}
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


def _compare(c: Call, kind: str, x: str, y: str) -> str:
    narrow = c.dtype() in ("bool", "int8", "uint8", "int16") and kind != "Equal"
    if narrow:  # no kernels in onnxruntime
        x, y = c.cast(x, "int32"), c.cast(y, "int32")
    if c.opset < 12 and kind.endswith("OrEqual"):
        return c.op("Or", c.op(kind.removesuffix("OrEqual"), x, y), c.op("Equal", x, y))
    return c.op(kind, x, y)


def _register() -> None:
    def compares(kind: str, negated: bool) -> Callable[[Call], None]:
        def function(c: Call) -> None:
            out = _compare(c, kind, *operands(c))
            c.set("Out", c.op("Not", out) if negated else out)

        return function

    def logic(kind: str) -> Callable[[Call], None]:
        return lambda c: c.set("Out", c.op(kind, c.cast(c.x(), "bool"), c.cast(c.x("Y"), "bool")))

    for op_type, (kind, negated) in _COMPARISONS.items():
        rule(op_type)(compares(kind, negated))
    for op_type, kind in _LOGIC.items():
        rule(op_type)(logic(kind))


_register()


@rule("logical_not")
def _not(c: Call) -> None:
    c.set("Out", c.op("Not", c.cast(c.x(), "bool")))


def _is(c: Call, what: str) -> str:
    """Elementwise predicate of X."""
    x = c.x() if c.is_float() else c.cast(c.x(), "float32")
    if what == "isnan":
        return c.op("IsNaN", x)
    infinite = c.op("IsInf", x if c.dtype() in ("float32", "float64") else c.cast(x, "float32"))
    if what == "isinf":
        return infinite
    return c.op("Not", c.op("Or", infinite, c.op("IsNaN", x)))


@rule("isnan_v2", "isinf_v2", "isfinite_v2")
def _predicate(c: Call) -> None:
    c.set("Out", _is(c, c.desc.type.removesuffix("_v2")))


def all_of(c: Call, value: str, kind: str = "Min") -> str:
    """Whether all (with kind Max: any) elements hold, of shape [1]."""
    return c.cast(c.reshape(c.reduce(kind, c.cast(value, "int32"), None, False), [1]), "bool")


@rule("isnan", "isinf", "isfinite")
def _any(c: Call) -> None:
    c.set("Out", all_of(c, _is(c, c.desc.type), "Min" if c.desc.type == "isfinite" else "Max"))


@rule("equal_all")
def _equal_all(c: Call) -> None:
    if -1 in c.shape() + c.shape("Y"):
        c.fail("sizes have to be known")
    if c.shape() != c.shape("Y"):
        c.set("Out", c.const([False], "bool"))
        return
    c.set("Out", all_of(c, c.op("Equal", c.x(), c.x("Y"))))


@rule("allclose")
def _allclose(c: Call) -> None:
    x, y = c.x("Input"), c.x("Other")

    def tolerance(slot: str, attr: str) -> str:
        return c.cast(c.x(slot), c.dtype("Input")) if c.has(slot) else c.like(float(c.attr(attr)), "Input")

    bound = c.op("Mul", tolerance("Rtol", "rtol"), c.op("Abs", y))
    bound = c.op("Add", tolerance("Atol", "atol"), bound)
    near = _compare_close(c, c.op("Abs", c.op("Sub", x, y)), bound)
    near = c.op("Or", near, c.op("Equal", x, y))
    if c.attr("equal_nan"):
        near = c.op("Or", near, c.op("And", c.op("IsNaN", x), c.op("IsNaN", y)))
    c.set("Out", all_of(c, near))


def _compare_close(c: Call, x: str, y: str) -> str:
    return c.op("Not", c.op("Greater", x, y)) if c.opset < 12 else c.op("LessOrEqual", x, y)


@rule("is_empty")
def _is_empty(c: Call) -> None:
    c.set("Out", c.op("Equal", c.reshape(c.op("Size", c.x()), [1]), c.const([0])))


@rule("shard_index")
def _shard_index(c: Call) -> None:
    x, per = c.x(), (c.attr("index_num") + c.attr("nshards") - 1) // c.attr("nshards")
    per_shard = c.like(per)
    mine = c.op("Equal", c.op("Div", x, per_shard), c.like(c.attr("shard_id")))
    c.set("Out", c.op("Where", mine, c.op("Mod", x, per_shard), c.like(c.attr("ignore_value"))))
