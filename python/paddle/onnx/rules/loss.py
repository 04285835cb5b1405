"""Losses, as evaluation Programs contain them."""

from __future__ import annotations

from ..call import Call
from ..registry import rule
from .norm import softmax
from .reduction import reduced


def _picked(c: Call, values: str, label: str, axis: int, ignored: int, slot: str) -> tuple[str, str]:
    """Values at the labels (which have size 1 along the axis), and whether a label is not ignored."""
    kept = c.op("Not", c.op("Equal", label, c.const(ignored, c.dtype("Label"))))
    real = c.op("Where", kept, label, c.const(0, c.dtype("Label")))
    return c.op("GatherElements", values, real, axis=axis), kept


@rule("softmax_with_cross_entropy")
def _softmax_with_cross_entropy(c: Call) -> None:
    axis, rank = c.attr("axis") % c.rank("Logits"), c.rank("Logits")
    logits = c.x("Logits")
    if c.attr("use_softmax"):
        logs = softmax(c, logits, rank, axis, "LogSoftmax")
        c.set("Softmax", softmax(c, logits, rank, axis))
    else:
        logs = c.op("Log", logits)
        c.set("Softmax", c.op("Identity", logits))
    if c.attr("soft_label"):
        c.set("Loss", c.op("Neg", c.reduce("Sum", c.op("Mul", c.x("Label"), logs), [axis], True)))
        return
    value, kept = _picked(c, logs, c.x("Label"), axis, c.attr("ignore_index"), "Logits")
    c.set("Loss", c.op("Where", kept, c.op("Neg", value), c.like(0.0, "Logits")))


@rule("cross_entropy", "cross_entropy2")
def _cross_entropy(c: Call) -> None:
    rank, label = c.rank(), c.x("Label")
    if c.desc.type == "cross_entropy" and c.attr("soft_label"):
        c.set("Y", c.op("Neg", c.reduce("Sum", c.op("Mul", label, c.op("Log", c.x())), [rank - 1], True)))
        return
    flat = c.rank("Label") < rank
    label = c.unsqueeze(label, [rank - 1]) if flat else label
    value, kept = _picked(c, c.x(), label, rank - 1, c.attr("ignore_index"), "X")
    c.set("MatchX", c.op("Where", kept, value, c.like(0.0)))
    loss = c.op("Where", kept, c.op("Neg", c.op("Log", value)), c.like(0.0))
    c.set("Y", c.squeeze(loss, [rank - 1]) if flat else loss)


def _logistic(c: Call, x: str, label: str) -> str:
    """max(x, 0) - x * label + log(1 + exp(-|x|))."""
    tail = c.op("Softplus", c.op("Neg", c.op("Abs", x)))
    return c.op("Add", c.op("Sub", c.op("Relu", x), c.op("Mul", x, label)), tail)


@rule("sigmoid_cross_entropy_with_logits")
def _sigmoid_cross_entropy(c: Call) -> None:
    label = c.x("Label")
    kept = c.op("Not", c.op("Equal", label, c.like(c.attr("ignore_index"))))
    loss = c.op("Where", kept, _logistic(c, c.x(), label), c.like(0.0))
    if c.attr("normalize"):
        count = c.reduce("Sum", c.cast(kept, c.dtype()), None, False)
        loss = c.op("Div", loss, c.op("Max", count, c.like(1e-5)))
    c.set("Out", loss)


@rule("bce_loss")
def _bce_loss(c: Call) -> None:
    one = c.like(1.0)

    def log(x: str) -> str:
        return c.op("Max", c.op("Log", x), c.like(-100.0))

    x, y = c.x(), c.x("Label")
    yes, no = c.op("Mul", y, log(x)), c.op("Mul", c.op("Sub", one, y), log(c.op("Sub", one, x)))
    c.set("Out", c.op("Neg", c.op("Add", yes, no)))


@rule("log_loss")
def _log_loss(c: Call) -> None:
    x, y = c.x("Predicted"), c.x("Labels")
    one, epsilon = c.like(1.0, "Predicted"), c.like(c.attr("epsilon"), "Predicted")
    yes = c.op("Mul", y, c.op("Log", c.op("Add", x, epsilon)))
    no = c.op("Mul", c.op("Sub", one, y), c.op("Log", c.op("Add", c.op("Sub", one, x), epsilon)))
    c.set("Loss", c.op("Neg", c.op("Add", yes, no)))


@rule("kldiv_loss")
def _kldiv_loss(c: Call) -> None:
    target, zero = c.x("Target"), c.like(0.0)
    present = c.op("Greater", target, zero)
    logs = c.op("Log", c.op("Where", present, target, c.like(1.0)))
    loss = c.op("Where", present, c.op("Mul", target, c.op("Sub", logs, c.x())), zero)
    reduction = c.attr("reduction")
    if reduction == "none":
        c.set("Loss", loss)
        return
    out = reduced(c, "Mean" if reduction == "mean" else "Sum", loss, None, False)
    if reduction == "batchmean":
        out = c.op("Div", out, c.cast(c.size(0), c.dtype()))
    c.set("Loss", out)


@rule("nll_loss")
def _nll_loss(c: Call) -> None:
    x, label = c.x(), c.x("Label")
    label = c.reshape(label, [-1]) if c.rank() == 2 else label
    label = c.unsqueeze(label, [1])
    value, kept = _picked(c, x, label, 1, c.attr("ignore_index"), "X")
    if c.has("Weight"):
        real = c.op("Where", kept, label, c.const(0, c.dtype("Label")))
        weight = c.op("Where", kept, c.op("Gather", c.x("Weight"), real, axis=0), c.like(0.0))
    else:
        weight = c.cast(kept, c.dtype())
    loss = c.squeeze(c.op("Neg", c.op("Mul", value, weight)), [1])
    reduction = c.attr("reduction")
    if reduction == "none":
        c.set("Out", loss)
        c.set("Total_weight", c.const([0.0], c.dtype()))
        return
    total, out = reduced(c, "Sum", weight, None, False), reduced(c, "Sum", loss, None, False)
    if reduction == "mean":
        safe = c.op("Where", c.op("Equal", total, c.like(0.0)), c.like(1.0), total)
        out = c.op("Div", out, safe)
    c.set("Out", out)
    c.set("Total_weight", total)


@rule("huber_loss")
def _huber_loss(c: Call) -> None:
    residual = c.op("Sub", c.x("Y"), c.x())
    size, delta = c.op("Abs", residual), c.attr("delta")
    square = c.op("Mul", c.op("Mul", residual, residual), c.like(0.5))
    line = c.op("Mul", c.op("Sub", size, c.like(0.5 * delta)), c.like(delta))
    c.set("Out", c.op("Where", c.op("Greater", size, c.like(delta)), line, square))
    c.set("Residual", residual)


@rule("smooth_l1_loss")
def _smooth_l1_loss(c: Call) -> None:
    sigma = c.attr("sigma") ** 2
    diff = c.op("Sub", c.x(), c.x("Y"))
    diff = c.op("Mul", diff, c.x("InsideWeight")) if c.has("InsideWeight") else diff
    size = c.op("Abs", diff)
    square = c.op("Mul", c.op("Mul", diff, diff), c.like(0.5 * sigma))
    loss = c.op("Where", c.op("Less", size, c.like(1 / sigma)), square, c.op("Sub", size, c.like(0.5 / sigma)))
    loss = c.op("Mul", loss, c.x("OutsideWeight")) if c.has("OutsideWeight") else loss
    axes = list(range(1, c.rank()))
    c.set("Out", c.reshape(c.reduce("Sum", loss, axes, False), [-1, 1]))
    c.set("Diff", diff)


@rule("squared_l2_distance")
def _squared_l2_distance(c: Call) -> None:
    diff = c.op("Sub", c.op("Flatten", c.x(), axis=1), c.op("Flatten", c.x("Y"), axis=1))
    c.set("Out", c.reduce("SumSquare", diff, [1], True))
    c.set("sub_result", diff)


@rule("hinge_loss")
def _hinge_loss(c: Call) -> None:
    one = c.like(1.0, "Logits")
    sign = c.op("Sub", c.op("Mul", c.x("Labels"), c.like(2.0, "Logits")), one)
    c.set("Loss", c.op("Relu", c.op("Sub", one, c.op("Mul", c.x("Logits"), sign))))


@rule("modified_huber_loss")
def _modified_huber_loss(c: Call) -> None:
    one = c.like(1.0)
    value = c.op("Mul", c.x(), c.op("Sub", c.op("Mul", c.x("Y"), c.like(2.0)), one))
    inner = c.op("Relu", c.op("Sub", one, value))
    far = c.op("Less", value, c.like(-1.0))
    c.set("Out", c.op("Where", far, c.op("Mul", value, c.like(-4.0)), c.op("Mul", inner, inner)))
    c.set("IntermediateVal", value)


@rule("rank_loss")
def _rank_loss(c: Call) -> None:
    sizes = c.sizes("Label")
    diff = c.op("Sub", c.reshape(c.x("Left"), sizes), c.reshape(c.x("Right"), sizes))
    c.set("Out", c.op("Sub", c.op("Softplus", diff), c.op("Mul", c.x("Label"), diff)))


@rule("margin_rank_loss")
def _margin_rank_loss(c: Call) -> None:
    product = c.op("Mul", c.op("Neg", c.x("Label")), c.op("Sub", c.x("X1"), c.x("X2")))
    value = c.op("Add", product, c.like(c.attr("margin"), "X1"))
    c.set("Out", c.op("Relu", value))
    c.set("Activated", c.cast(c.op("Greater", value, c.like(0.0, "X1")), c.dtype("X1")))
