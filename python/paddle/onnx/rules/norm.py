"""Normalizations and softmax."""

from __future__ import annotations

from ..call import Call
from ..registry import rule
from .convolution import to_first, to_last


def _refuse_training(c: Call) -> None:
    test = c.attr("is_test") and not c.attr("trainable_statistics")
    if not (test or c.attr("use_global_stats")):
        c.fail("it has to use the running statistics (is_test, Program.clone(for_test=True), Layer.eval())")


@rule("batch_norm", "sync_batch_norm")
def _batch_norm(c: Call) -> None:
    _refuse_training(c)
    rank, x = c.rank(), c.x()
    last = c.attr("data_layout") == "NHWC" and rank > 2
    x = to_first(c, x, rank) if last else x
    stats = [c.x(slot) for slot in ("Scale", "Bias", "Mean", "Variance")]
    out = c.op("BatchNormalization", x, *stats, epsilon=float(c.attr("epsilon")))
    c.set("Y", to_last(c, out, rank) if last else out)
    # unchanged in test mode
    c.set("MeanOut", stats[2])
    c.set("VarianceOut", stats[3])


@rule("inplace_abn")
def _inplace_abn(c: Call) -> None:
    _refuse_training(c)
    rank, x = c.rank(), c.x()
    last = c.attr("data_layout") == "NHWC" and rank > 2
    x = to_first(c, x, rank) if last else x
    stats = [c.x(slot) for slot in ("Scale", "Bias", "Mean", "Variance")]
    out = c.op("BatchNormalization", x, *stats, epsilon=float(c.attr("epsilon")))
    out = to_last(c, out, rank) if last else out
    kind, alpha = c.attr("activation"), float(c.attr("alpha"))
    if kind == "leaky_relu":
        out = c.op("LeakyRelu", out, alpha=alpha)
    elif kind == "elu":
        out = c.op("Elu", out, alpha=alpha)
    elif kind not in ("", "identity"):
        c.fail(f"the activation {kind} has no rule")
    c.set("Y", out)


def normalized(c: Call, x: str, axes: list[int], epsilon: float) -> str:
    """x with mean 0 and variance 1 over these dimensions."""
    centered = c.op("Sub", x, c.reduce("Mean", x, axes, True))
    variance = c.reduce("Mean", c.op("Mul", centered, centered), axes, True)
    return c.op("Div", centered, c.op("Sqrt", c.op("Add", variance, c.like(epsilon))))


def layer_norm(c: Call, x: str, shape: list[int], begin: int, scale: str, bias: str, epsilon: float) -> str:
    """Normalization over the dimensions from `begin` on, then scale and bias where they are not ""."""
    inner = shape[begin:]
    if len(inner) > 1:
        sizes = c.const(inner) if -1 not in inner else c.slice(c.op("Shape", x), [0], [begin], [len(shape)])
        scale, bias = (c.reshape(v, sizes) if v else v for v in (scale, bias))
    if c.opset >= 17 and scale:
        return c.op("LayerNormalization", x, scale, bias, axis=begin, epsilon=float(epsilon))
    out = normalized(c, x, list(range(begin, len(shape))), epsilon)
    out = c.op("Mul", out, scale) if scale else out
    return c.op("Add", out, bias) if bias else out


@rule("layer_norm")
def _layer_norm(c: Call) -> None:
    begin = c.attr("begin_norm_axis")
    c.set("Y", layer_norm(c, c.x(), c.shape(), begin, c.x("Scale"), c.x("Bias"), c.attr("epsilon")))


def _scaled(c: Call, x: str, rank: int) -> str:
    """x times Scale plus Bias along the second dimension."""
    for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
        if c.has(slot):
            x = c.op(kind, x, c.reshape(c.x(slot), [1, -1] + [1] * (rank - 2)))
    return x


@rule("group_norm")
def _group_norm(c: Call) -> None:
    rank, groups, x = c.rank(), c.attr("groups"), c.x()
    last = c.attr("data_layout") == "NHWC"
    x = to_first(c, x, rank) if last else x
    parts = c.reshape(x, [0, groups, -1])
    ones = c.const([1.0] * groups, c.dtype()), c.const([0.0] * groups, c.dtype())
    parts = c.op("InstanceNormalization", parts, *ones, epsilon=float(c.attr("epsilon")))
    shape = c.shape()
    if shape[1:].count(-1) == 0 and not last:
        out = c.reshape(parts, [0, *shape[1:]])
    else:
        out = c.reshape(parts, c.op("Shape", x))
    out = _scaled(c, out, rank)
    c.set("Y", to_last(c, out, rank) if last else out)


@rule("instance_norm")
def _instance_norm(c: Call) -> None:
    channels = c.shape()[1]
    scale, bias = c.x("Scale"), c.x("Bias")
    if not (scale and bias) and channels == -1:
        c.fail("the number of channels has to be known")
    scale = scale or c.const([1.0] * channels, c.dtype())
    bias = bias or c.const([0.0] * channels, c.dtype())
    flat = c.rank() == 2  # one element a channel
    x = c.unsqueeze(c.x(), [2]) if flat else c.x()
    out = c.op("InstanceNormalization", x, scale, bias, epsilon=float(c.attr("epsilon")))
    c.set("Y", c.squeeze(out, [2]) if flat else out)


@rule("norm")
def _l2_normalize(c: Call) -> None:
    axis = c.attr("axis") % c.rank()
    total = c.reduce("SumSquare", c.x(), [axis], True)
    size = c.op("Sqrt", c.op("Add", total, c.like(c.attr("epsilon"))))
    c.set("Out", c.op("Div", c.x(), size))
    c.set("Norm", size)


@rule("lrn")
def _lrn(c: Call) -> None:
    n, rank, x = c.attr("n"), c.rank(), c.x()
    last = c.attr("data_format") == "NHWC"
    x = to_first(c, x, rank) if last else x
    # ONNX divides alpha by the size of the window
    out = c.op("LRN", x, size=n, alpha=float(c.attr("alpha")) * n, beta=float(c.attr("beta")), bias=float(c.attr("k")))
    c.set("Out", to_last(c, out, rank) if last else out)


@rule("affine_channel")
def _affine_channel(c: Call) -> None:
    if c.attr("data_layout") == "NHWC":
        c.set("Out", c.op("Add", c.op("Mul", c.x(), c.x("Scale")), c.x("Bias")))
    else:
        c.set("Out", _scaled(c, c.x(), c.rank()))


@rule("data_norm")
def _data_norm(c: Call) -> None:
    if c.attr("slot_dim") > 0:
        c.fail("slot_dim has no rule")
    size, total, squares = c.x("BatchSize"), c.x("BatchSum"), c.x("BatchSquareSum")
    mean, scale = c.op("Div", total, size), c.op("Sqrt", c.op("Div", size, squares))
    out = c.op("Mul", c.op("Sub", c.x(), mean), scale)
    if c.attr("enable_scale_and_shift"):
        out = c.op("Add", c.op("Mul", out, c.x("scale_w")), c.x("bias"))
    c.set("Y", out)


def softmax(c: Call, x: str, rank: int, axis: int, kind: str = "Softmax") -> str:
    """Softmax or LogSoftmax along one dimension."""
    axis %= rank
    if c.opset >= 13 or axis == rank - 1:
        return c.op(kind, x, axis=axis)
    perm = [a for a in range(rank) if a != axis] + [axis]
    return c.transpose(c.op(kind, c.transpose(x, perm), axis=rank - 1), [perm.index(a) for a in range(rank)])


@rule("softmax")
def _softmax(c: Call) -> None:
    c.set("Out", softmax(c, c.x(), c.rank(), c.attr("axis")))


@rule("log_softmax")
def _log_softmax(c: Call) -> None:
    c.set("Out", softmax(c, c.x(), c.rank(), c.attr("axis"), "LogSoftmax"))


@rule("spectral_norm")
def _spectral_norm(c: Call) -> None:
    shape, dim = c.shape("Weight"), c.attr("dim")
    if -1 in shape:
        c.fail("sizes have to be known")
    perm = [dim] + [a for a in range(len(shape)) if a != dim]
    weight = c.reshape(c.transpose(c.x("Weight"), perm), [shape[dim], -1])
    turned = c.transpose(weight, [1, 0])
    u, v = c.reshape(c.x("U"), [-1, 1]), c.reshape(c.x("V"), [-1, 1])

    def unit(x: str) -> str:
        size = c.op("Sqrt", c.reduce("SumSquare", x, None, False))
        return c.op("Div", x, c.op("Add", size, c.like(c.attr("eps"), "Weight")))

    for _ in range(c.attr("power_iters")):
        v = unit(c.op("MatMul", turned, u))
        u = unit(c.op("MatMul", weight, v))
    sigma = c.reshape(c.op("MatMul", c.transpose(u, [1, 0]), c.op("MatMul", weight, v)), [])
    c.set("Out", c.op("Div", c.x("Weight"), sigma))
