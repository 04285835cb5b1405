"""Operators that inference passes make of several."""

from __future__ import annotations

from ..call import Call
from ..registry import rule
from .activation import activate
from .elementwise import operands
from .matmul import flattened_product
from .norm import layer_norm, softmax

_UNARY = ("scale", "relu", "tanh", "sigmoid")
_BINARY = {"elementwise_add": "Add", "elementwise_mul": "Mul"}


@rule("fused_elemwise_activation", "fused_elemwise_add_activation")
def _fused_elemwise(c: Call) -> None:
    first, second = c.attr("functor_list")

    def unary(kind: str, x: str) -> str:
        return c.op("Mul", x, c.like(c.attr("scale"))) if kind == "scale" else activate(c, kind, x)

    x, y = operands(c)
    if first in _UNARY and second in _BINARY:
        middle = c.op(_BINARY[second], x, y)
        out = unary(first, middle)
    elif first in _BINARY and second in _UNARY:
        out = c.op(_BINARY[first], x, unary(second, y))
        middle = unary(second, c.x("Y"))
    else:
        c.fail(f"the functions {first} and {second} have no rule")
    c.set("Out", out)
    c.set("IntermediateOut", middle)


@rule("fusion_repeated_fc_relu")
def _repeated_fc_relu(c: Call) -> None:
    x, weights = c.x(), c.xs("W")
    for i, (weight, bias) in enumerate(zip(weights, c.xs("Bias"), strict=True)):
        x = c.op("Relu", c.op("Add", c.op("MatMul", x, weight), c.flat(bias)))
        if i < len(weights) - 1:
            c.set("ReluOut", x, i)
    c.set("Out", x)


@rule("fusion_transpose_flatten_concat")
def _transpose_flatten_concat(c: Call) -> None:
    parts = [c.op("Flatten", c.transpose(x, c.attr("trans_axis")), axis=c.attr("flatten_axis")) for x in c.xs("X")]
    c.set("Out", c.op("Concat", *parts, axis=c.attr("concat_axis")) if len(parts) > 1 else parts[0])


@rule("skip_layernorm")
def _skip_layernorm(c: Call) -> None:
    total = c.op("Add", c.x(), c.x("Y"))
    begin = c.attr("begin_norm_axis")
    begin = begin if begin >= 0 else begin + c.rank()
    c.set("Out", layer_norm(c, total, c.shape(), begin, c.x("Scale"), c.x("Bias"), c.attr("epsilon")))


@rule("fused_embedding_eltwise_layernorm")
def _embedding_layernorm(c: Call) -> None:
    total = ""
    for i, (ids, table) in enumerate(zip(c.xs("Ids"), c.xs("Embs"), strict=True)):
        if c.rank("Ids", i) == 3:
            ids = c.squeeze(ids, [2])
        rows = c.op("Gather", table, ids, axis=0)
        total = c.op("Add", total, rows) if total else rows
    width = c.shape("Embs")[-1]
    scale, bias = c.flat(c.x("Scale")), c.flat(c.x("Bias"))
    c.main = "Embs"
    c.set("Out", layer_norm(c, total, [-1, -1, width], 2, scale, bias, c.attr("epsilon")))


@rule("fused_fc_elementwise_layernorm")
def _fc_layernorm(c: Call) -> None:
    out = flattened_product(c, c.x(), c.shape(), c.attr("x_num_col_dims"), c.x("W"), c.shape("W"))
    if c.has("Bias0"):
        out = c.op("Add", out, c.flat(c.x("Bias0")))
    out = c.op("Add", activate(c, c.attr("activation_type"), out), c.x("Y"))
    scale, bias = (c.x(slot) for slot in ("Scale", "Bias1"))
    c.set("Out", layer_norm(c, out, c.shape("Y"), c.attr("begin_norm_axis"), scale, bias, c.attr("epsilon")))


@rule("multihead_matmul")
def _multihead_matmul(c: Call) -> None:
    heads, (inner, _, width) = c.attr("head_number"), c.shape("W")
    weight = c.reshape(c.x("W"), [inner, 3 * width])
    joined = c.op("Add", c.op("MatMul", c.x("Input"), weight), c.flat(c.x("Bias")))
    parts = []
    for part in c.split(joined, [width] * 3, 2):
        parts.append(c.transpose(c.reshape(part, [0, 0, heads, width // heads]), [0, 2, 1, 3]))
    query, key, value = parts
    scores = c.op("MatMul", query, c.transpose(key, [0, 1, 3, 2]))
    scores = c.op("Add", c.op("Mul", scores, c.like(c.attr("alpha"), "Input")), c.x("BiasQK"))
    out = c.op("MatMul", softmax(c, scores, 4, 3), value)
    c.set("Out", c.reshape(c.transpose(out, [0, 2, 1, 3]), [0, 0, width]))
