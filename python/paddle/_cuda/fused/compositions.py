"""Operators that fuse others, computed by their parts: fused_elemwise_activation, layer_norm of sums, attention."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..call import Call, Declined
from ..math.elementwise import reduced, seen_shape


def _unary(call: Call, name: str, x):
    xp, of = call.xp, x.dtype.type
    if name == "scale":
        return x * of(call.attrs["scale"])
    if name == "relu":
        return xp.maximum(x, of(0))
    if name == "tanh":
        return xp.tanh(x)
    if name == "sigmoid":
        return 1 / (1 + xp.exp(-x))
    raise Declined


def _slope(call: Call, name: str, y, d):
    """The gradient of an activation by its result."""
    xp, of = call.xp, y.dtype.type
    if name == "scale":
        return d * of(call.attrs["scale"])
    if name == "relu":
        return xp.where(y > 0, d, of(0))
    if name == "tanh":
        return d * (1 - y * y)
    if name == "sigmoid":
        return d * y * (1 - y)
    raise Declined


def _functors(call: Call) -> tuple[str, str, bool]:
    """Binary operator, activation, and whether the activation is outside."""
    first, second = (name.removesuffix("_grad") for name in call.attrs["functor_list"])
    if first in ("elementwise_add_grad", "elementwise_add", "elementwise_mul"):
        return first, second, False
    return second, first, True


def _elemwise(call: Call) -> dict:
    x, y = call.floats("X", "Y")
    if x.ndim < y.ndim:
        raise Declined
    binary, unary, outside = _functors(call)
    seen = seen_shape(y.shape, x.ndim, call.attrs["axis"])

    def join(a, b):
        return a + b if binary == "elementwise_add" else a * b

    if binary not in ("elementwise_add", "elementwise_mul"):
        raise Declined
    if outside:
        middle = join(x, y.reshape(seen))
        return {"Out": _unary(call, unary, middle), "IntermediateOut": middle}
    middle = _unary(call, unary, y)
    return {"Out": join(x, middle.reshape(seen)), "IntermediateOut": middle}


def _elemwise_grad(call: Call) -> dict:
    y, out, d = call.floats("Y", "Out", "Out@GRAD")
    binary, unary, outside = _functors(call)
    x = call.ins.get("X")
    x_shape = d.shape if x is None else tuple(x.shape)
    if len(x_shape) < y.ndim or binary not in ("elementwise_add", "elementwise_mul"):
        raise Declined
    if x is None and binary != "elementwise_add":
        raise Declined
    seen = seen_shape(y.shape, d.ndim, call.attrs["axis"])
    if outside:
        g = _slope(call, unary, out, d)
        gx, gy = (g, g) if binary == "elementwise_add" else (g * y.reshape(seen), g * x)
        made = {"X@GRAD": reduced(gx, x_shape, x_shape), "Y@GRAD": reduced(gy, y.shape, seen)}
        return {**made, "IntermediateOut@GRAD": g} if call.wanted.get("IntermediateOut@GRAD") else made
    middle = _unary(call, unary, y)
    wide = middle.reshape(seen)
    gx, gm = (d, d) if binary == "elementwise_add" else (d * wide, d * x)
    gm = reduced(gm, y.shape, seen)
    made = {"X@GRAD": reduced(gx, x_shape, x_shape), "Y@GRAD": _slope(call, unary, middle, gm)}
    return {**made, "IntermediateOut@GRAD": gm} if call.wanted.get("IntermediateOut@GRAD") else made


def _normalized(call: Call, x, scale, bias, axis: int):
    """layer_norm over the axes from `axis` on: the result, mean and variance of each row."""
    rows = x.reshape(math.prod(x.shape[:axis]), -1)
    mean = rows.mean(axis=1, keepdims=True)
    variance = ((rows - mean) ** 2).mean(axis=1, keepdims=True)
    y = (rows - mean) / call.xp.sqrt(variance + x.dtype.type(call.attrs["epsilon"]))
    y = y if scale is None else y * scale.reshape(1, -1)
    y = y if bias is None else y + bias.reshape(1, -1)
    return y.reshape(x.shape), mean.reshape(-1), variance.reshape(-1)


def _skip_layernorm(call: Call) -> dict:
    x, y, scale, bias = call.floats("X", "Y", "Scale", "Bias")
    if x.size == 0:
        raise Declined
    return {"Out": _normalized(call, x + y, scale, bias, x.ndim - 1)[0]}


def _embedding_layernorm(call: Call) -> dict:
    xp, total = call.xp, None
    for ids, table in zip(call.ins["Ids"], call.ins["Embs"], strict=True):
        rows = xp.take(table, xp.clip(ids.reshape(ids.shape[0], -1), 0, table.shape[0] - 1), axis=0)
        total = rows if total is None else total + rows
    if total is None or total.dtype.kind != "f" or total.size == 0:
        raise Declined
    out = _normalized(call, total, call.array("Scale"), call.array("Bias"), total.ndim - 1)[0]
    return {"Out": out.reshape(call.shape("Out"))}


def _fc_layernorm(call: Call) -> dict:
    x, w, y = call.floats("X", "W", "Y")
    a, xp = call.attrs, call.xp
    if x.size == 0 or a["activation_type"] not in ("", "relu"):
        raise Declined
    out = xp.matmul(x.reshape(math.prod(x.shape[: a["x_num_col_dims"]]), -1), w)
    if call.ins.get("Bias0") is not None:
        out = out + call.array("Bias0").reshape(1, -1)
    if a["activation_type"] == "relu":
        out = xp.maximum(out, out.dtype.type(0))
    out = out.reshape(y.shape) + y
    made, mean, variance = _normalized(call, out, call.ins.get("Scale"), call.ins.get("Bias1"), a["begin_norm_axis"])
    return {"Out": made, "Mean": mean, "Variance": variance}


def _softmax(xp, x):
    e = xp.exp(xp.maximum(x - x.max(axis=-1, keepdims=True), x.dtype.type(-64)))
    return e / e.sum(axis=-1, keepdims=True)


def _attention(call: Call) -> dict:
    x, w, bias, mask = call.floats("Input", "W", "Bias", "BiasQK")
    a, xp = call.attrs, call.xp
    if x.size == 0 or a["transpose_Q"] or a["transpose_V"] or not a["transpose_K"]:
        raise Declined
    b, s, n = x.shape
    heads = a["head_number"]
    size = w.size // n // 3 // heads
    qkv = xp.matmul(x, w.reshape(n, -1)) + bias.reshape(-1)
    q, k, v = qkv.reshape(b, s, 3, heads, size).transpose(2, 0, 3, 1, 4)
    scores = xp.matmul(q, k.swapaxes(-1, -2)) * x.dtype.type(a["alpha"]) + mask
    out = xp.matmul(_softmax(xp, scores), v)
    return {"Out": out.transpose(0, 2, 1, 3).reshape(b, s, heads * size)}


def _squared(call: Call) -> dict:
    (x, y), xp = call.floats("X", "Y"), call.xp
    if x.size == 0 or y.size == 0:
        raise Declined
    xx, yy = x * x, y * y
    product = xp.matmul(x, y)
    square, apart = product * product, xp.matmul(xx, yy)
    out = (square - apart) * x.dtype.type(call.attrs["scalar"])
    return {"SquaredX": xx, "SquaredY": yy, "SquaredXY": square, "Out": out}


def _repeated_fc(call: Call) -> dict:
    (x,), xp = call.floats("X"), call.xp
    if x.size == 0:
        raise Declined
    steps = []
    for w, b in zip(call.ins["W"], call.ins["Bias"], strict=True):
        x = xp.maximum(xp.matmul(x.reshape(x.shape[0], -1), w) + b.reshape(1, -1), x.dtype.type(0))
        steps.append(x)
    return {"ReluOut": steps[:-1], "Out": steps[-1]}


def _flat_concat(call: Call) -> dict:
    a, parts = call.attrs, []
    for x in call.ins["X"]:
        t = x.transpose(a["trans_axis"])
        parts.append(t.reshape(math.prod(t.shape[: a["flatten_axis"]]), -1))
    return {"Out": call.xp.concatenate(parts, a["concat_axis"])}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(("fused_elemwise_activation", "fused_elemwise_add_activation"), _elemwise),
    **dict.fromkeys(("fused_elemwise_activation_grad", "fused_elemwise_add_activation_grad"), _elemwise_grad),
    "skip_layernorm": _skip_layernorm,
    "fused_embedding_eltwise_layernorm": _embedding_layernorm,
    "fused_fc_elementwise_layernorm": _fc_layernorm,
    "multihead_matmul": _attention,
    "fusion_squared_mat_sub": _squared,
    "fusion_repeated_fc_relu": _repeated_fc,
    "fusion_transpose_flatten_concat": _flat_concat,
}
