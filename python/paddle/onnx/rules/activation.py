"""Elementwise functions of one input."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..call import Call
from ..registry import rule

#: operator -> ONNX node without attributes
_SAME = {
    "abs": "Abs",
    "acos": "Acos",
    "asin": "Asin",
    "atan": "Atan",
    "assign": "Identity",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
    "memcpy": "Identity",
    "rnn_memory_helper": "Identity",
}

#: operator -> (ONNX node, {ONNX attribute: the operator's attribute})
_WITH_ATTRS = {
    "elu": ("Elu", {"alpha": "alpha"}),
    "hard_sigmoid": ("HardSigmoid", {"alpha": "slope", "beta": "offset"}),
    "leaky_relu": ("LeakyRelu", {"alpha": "alpha"}),
    "selu": ("Selu", {"alpha": "alpha", "gamma": "scale"}),
    "thresholded_relu": ("ThresholdedRelu", {"alpha": "threshold"}),
    "hard_shrink": ("Shrink", {"lambd": "threshold"}),
    "softshrink": ("Shrink", {"lambd": "lambda", "bias": "lambda"}),
}


def _register() -> None:
    def same(kind: str) -> Callable[[Call], None]:
        def function(c: Call) -> None:
            if kind not in ("Abs", "Identity", "Relu", "Sign") and not c.is_float():
                c.fail(f"operands of type {c.dtype()} have no rule")
            c.set("Out", c.op(kind, c.x()))

        return function

    def with_attrs(kind: str, names: dict[str, str]) -> Callable[[Call], None]:
        return lambda c: c.set("Out", c.op(kind, c.x(), **{k: float(c.attr(v)) for k, v in names.items()}))

    for op_type, kind in _SAME.items():
        rule(op_type)(same(kind))
    for op_type, (kind, names) in _WITH_ATTRS.items():
        rule(op_type)(with_attrs(kind, names))


_register()


def clip(c: Call, x: str, low: float | None, high: float | None) -> str:
    """The value between two bounds, of the element type of X."""
    return c.op("Clip", x, "" if low is None else c.like(low), "" if high is None else c.like(high))


def activate(c: Call, kind: str, x: str) -> str:
    """A named activation without attributes, as fused operators have."""
    kinds = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "sqrt": "Sqrt"}
    if kind in ("", "identity"):
        return x
    if kind in kinds:
        return c.op(kinds[kind], x)
    if kind == "relu6":
        return clip(c, x, 0.0, 6.0)
    return c.fail(f"the activation {kind} has no rule")


@rule("print")
def _print(c: Call) -> None:
    c.set("Out", c.op("Identity", c.x("In")))


@rule("scale")
def _scale(c: Call) -> None:
    if c.opset < 14 and c.dtype() in ("int8", "uint8", "int16"):
        c.fail("integers of less than 32 bits require opset 14 or later")
    scale = c.x("ScaleTensor")
    factor = c.flat(c.cast(scale, c.dtype())) if scale else c.like(c.attr("scale"))
    out, bias = c.x(), c.attr("bias")
    if not c.attr("bias_after_scale") and bias:
        out = c.op("Add", out, c.like(bias))
    if scale or c.attr("scale") != 1.0:
        out = c.op("Mul", out, factor)
    if c.attr("bias_after_scale") and bias:
        out = c.op("Add", out, c.like(bias))
    c.set("Out", out if out != c.x() else c.op("Identity", out))


@rule("cast")
def _cast(c: Call) -> None:
    c.set("Out", c.cast(c.x(), c.element_type("out_dtype")))


@rule("rsqrt")
def _rsqrt(c: Call) -> None:
    c.set("Out", c.op("Reciprocal", c.op("Sqrt", c.x())))


@rule("square")
def _square(c: Call) -> None:
    c.set("Out", c.op("Mul", c.x(), c.x()))


@rule("log2")
def _log2(c: Call) -> None:
    c.set("Out", c.op("Mul", c.op("Log", c.x()), c.like(1 / math.log(2))))


@rule("log10")
def _log10(c: Call) -> None:
    c.set("Out", c.op("Mul", c.op("Log", c.x()), c.like(1 / math.log(10))))


@rule("log1p")
def _log1p(c: Call) -> None:
    c.set("Out", c.op("Log", c.op("Add", c.x(), c.like(1.0))))


@rule("round")
def _round(c: Call) -> None:
    # halves go away from zero; ONNX's Round takes them to even numbers
    near = c.op("Floor", c.op("Add", c.op("Abs", c.x()), c.like(0.5)))
    c.set("Out", c.op("Mul", c.op("Sign", c.x()), near))


@rule("relu6")
def _relu6(c: Call) -> None:
    c.set("Out", clip(c, c.x(), 0.0, c.attr("threshold")))


@rule("brelu")
def _brelu(c: Call) -> None:
    c.set("Out", clip(c, c.x(), c.attr("t_min"), c.attr("t_max")))


@rule("logsigmoid")
def _logsigmoid(c: Call) -> None:
    c.set("Out", c.op("Neg", c.op("Softplus", c.op("Neg", c.x()))))


@rule("softplus")
def _softplus(c: Call) -> None:
    beta, x = c.attr("beta"), c.x()
    inner = x if beta == 1.0 else c.op("Mul", x, c.like(beta))
    out = c.op("Softplus", inner)
    if beta != 1.0:
        out = c.op("Div", out, c.like(beta))
    if c.attr("threshold") < 20:
        out = c.op("Where", c.op("Greater", inner, c.like(c.attr("threshold"))), x, out)
    c.set("Out", out)


@rule("soft_relu")
def _soft_relu(c: Call) -> None:
    threshold = c.attr("threshold")
    c.set("Out", c.op("Softplus", clip(c, c.x(), -threshold, threshold)))


@rule("stanh")
def _stanh(c: Call) -> None:
    inner = c.op("Tanh", c.op("Mul", c.x(), c.like(c.attr("scale_a"))))
    c.set("Out", c.op("Mul", inner, c.like(c.attr("scale_b"))))


@rule("tanh_shrink")
def _tanh_shrink(c: Call) -> None:
    c.set("Out", c.op("Sub", c.x(), c.op("Tanh", c.x())))


@rule("swish")
def _swish(c: Call) -> None:
    beta = c.attr("beta")
    inner = c.x() if beta == 1.0 else c.op("Mul", c.x(), c.like(beta))
    c.set("Out", c.op("Mul", c.x(), c.op("Sigmoid", inner)))


@rule("mish")
def _mish(c: Call) -> None:
    c.set("Out", c.op("Mul", c.x(), c.op("Tanh", c.op("Softplus", c.x()))))


@rule("hard_swish")
def _hard_swish(c: Call) -> None:
    inner = clip(c, c.op("Add", c.x(), c.like(c.attr("offset"))), 0.0, c.attr("threshold"))
    c.set("Out", c.op("Mul", c.x(), c.op("Div", inner, c.like(c.attr("scale")))))


def gelu(c: Call, x: str, approximate: bool) -> str:
    """The gaussian error linear unit of a value of X's type."""
    if c.opset >= 20:
        return c.op("Gelu", x, approximate="tanh" if approximate else "none")
    if approximate:
        cube = c.op("Mul", c.op("Mul", x, x), x)
        inner = c.op("Add", x, c.op("Mul", cube, c.like(0.044715)))
        gate = c.op("Tanh", c.op("Mul", inner, c.like(math.sqrt(2 / math.pi))))
    else:
        gate = c.op("Erf", c.op("Mul", x, c.like(math.sqrt(0.5))))
    return c.op("Mul", c.op("Mul", x, c.like(0.5)), c.op("Add", gate, c.like(1.0)))


@rule("gelu")
def _gelu(c: Call) -> None:
    c.set("Out", gelu(c, c.x(), c.attr("approximate")))


@rule("pow")
def _pow(c: Call) -> None:
    if c.opset < 12 and not c.is_float():
        c.fail("integers require opset 12 or later")
    factor = c.x("FactorTensor")
    c.set("Out", c.op("Pow", c.x(), c.flat(factor) if factor else c.like(c.attr("factor"))))


@rule("clip")
def _clip(c: Call) -> None:
    if c.opset < 12 and not c.is_float():
        c.fail("integers require opset 12 or later")

    def bound(slot: str, attr: str) -> str:
        return c.reshape(c.x(slot), []) if c.has(slot) else c.like(c.attr(attr))

    c.set("Out", c.op("Clip", c.x(), bound("Min", "min"), bound("Max", "max")))


@rule("clip_by_norm")
def _clip_by_norm(c: Call) -> None:
    norm = c.op("Sqrt", c.reduce("SumSquare", c.x(), None, False))
    factor = c.op("Div", c.like(c.attr("max_norm")), c.op("Max", norm, c.like(c.attr("max_norm"))))
    c.set("Out", c.op("Mul", c.x(), factor))


@rule("prelu")
def _prelu(c: Call) -> None:
    mode, rank, alpha = c.attr("mode"), c.rank(), c.x("Alpha")
    if mode == "all":
        alpha = c.reshape(alpha, [1] * rank)
    elif mode == "channel":
        alpha = c.reshape(alpha, [1, -1] + [1] * (rank - 2))
    else:
        sizes = c.shape()[1:]
        if -1 in sizes:
            c.fail("mode 'element' requires known sizes")
        alpha = c.reshape(alpha, [1, *sizes])
    c.set("Out", c.op("PRelu", c.x(), alpha))


@rule("maxout")
def _maxout(c: Call) -> None:
    axis, groups, shape = c.attr("axis") % c.rank(), c.attr("groups"), c.shape()
    if shape[axis] == -1:
        c.fail("the size of its axis has to be known")
    # 0 keeps a size of the input at the same place: sizes behind the axis move by one
    if shape[axis + 1 :].count(-1) > 1:
        c.fail("more than one unknown size behind its axis")
    parts = [0] * axis + [shape[axis] // groups, groups] + shape[axis + 1 :]
    c.set("Out", c.reduce("Max", c.reshape(c.x(), parts), [axis + 1], False))
