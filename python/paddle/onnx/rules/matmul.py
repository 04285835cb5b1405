"""Matrix products."""

from __future__ import annotations

from ..call import Call
from ..registry import rule
from .activation import activate


def _last_two(c: Call, x: str, rank: int) -> str:
    return c.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


@rule("matmul", "matmul_v2")
def _matmul(c: Call) -> None:
    old = c.desc.type == "matmul"
    names = ("transpose_X", "transpose_Y") if old else ("trans_x", "trans_y")
    x, y, ranks = c.x(), c.x("Y"), [c.rank(), c.rank("Y")]
    if old and any(
        c.attr(f"fused_{what}")
        for what in ("reshape_X", "reshape_Y", "transpose_X", "transpose_Y", "reshape_Out", "transpose_Out")
    ):
        c.fail("fused reshapes and transposes have no rule")
    both_vectors = ranks == [1, 1]
    if ranks[0] > 1 and c.attr(names[0]):
        x = _last_two(c, x, ranks[0])
    if ranks[1] > 1 and c.attr(names[1]):
        y = _last_two(c, y, ranks[1])
    squeezed = []
    if both_vectors and old and c.attr(names[0]) and c.attr(names[1]):
        # [K, 1] x [1, K]
        x, y = c.unsqueeze(x, [1]), c.unsqueeze(y, [0])
    elif ranks[0] == 1 and ranks[1] > 1:
        x = c.unsqueeze(x, [0])
        squeezed.append(max(ranks) - 2)
    out = c.op("MatMul", x, y)
    if both_vectors and not (old and c.attr(names[0]) and c.attr(names[1])):
        out = c.reshape(out, [1])
    out = c.squeeze(out, squeezed)
    if old and c.attr("alpha") != 1.0:
        out = c.op("Mul", out, c.like(c.attr("alpha")))
    declared = len(c.out_shape("Out"))
    made = 1 if both_vectors else max(ranks) - (1 if 1 in ranks else 0)
    if declared != made:
        shape = c.out_shape("Out")
        if shape.count(-1) > 1:
            c.fail("a product of vectors with more than one unknown size")
        out = c.reshape(out, shape)
    c.set("Out", out)


def flattened_product(
    c: Call, x: str, shape: list[int], columns: int, y: str, y_shape: list[int], y_columns: int = 1
) -> str:
    """The product of matrices whose rows are the first `columns` dimensions of X, and `y_columns` of Y."""
    if columns == len(shape) - 1 and y_columns == 1 and len(y_shape) == 2:
        return c.op("MatMul", x, y)
    lead, tail = shape[:columns], y_shape[y_columns:]
    flat = c.op("Flatten", x, axis=columns) if len(shape) != 2 or columns != 1 else x
    right = c.op("Flatten", y, axis=y_columns) if len(y_shape) != 2 or y_columns != 1 else y
    out = c.op("MatMul", flat, right)
    if len(lead) == 1 and len(tail) == 1:
        return out
    if (lead + tail).count(-1) <= 1:
        return c.reshape(out, lead + tail)
    sizes = c.slice(c.op("Shape", x), [0], [0], [columns])
    return c.reshape(out, c.op("Concat", sizes, c.const(tail), axis=0))


@rule("mul")
def _mul(c: Call) -> None:
    out = flattened_product(
        c, c.x(), c.shape(), c.attr("x_num_col_dims"), c.x("Y"), c.shape("Y"), c.attr("y_num_col_dims")
    )
    c.set("Out", out)


@rule("fc")
def _fc(c: Call) -> None:
    if c.attr("padding_weights"):
        c.fail("padded weights have no rule")
    out = flattened_product(c, c.x("Input"), c.shape("Input"), c.attr("in_num_col_dims"), c.x("W"), c.shape("W"))
    if c.has("Bias"):
        out = c.op("Add", out, c.flat(c.x("Bias")))
    c.set("Out", activate(c, c.attr("activation_type"), out))


@rule("bmm")
def _bmm(c: Call) -> None:
    c.set("Out", c.op("MatMul", c.x(), c.x("Y")))


@rule("mv")
def _mv(c: Call) -> None:
    c.set("Out", c.op("MatMul", c.x(), c.x("Vec")))


@rule("dot")
def _dot(c: Call) -> None:
    c.set("Out", c.reduce("Sum", c.op("Mul", c.x(), c.x("Y")), [c.rank() - 1], True))


@rule("addmm")
def _addmm(c: Call) -> None:
    product = c.op("Mul", c.op("MatMul", c.x(), c.x("Y")), c.like(c.attr("Alpha")))
    c.set("Out", c.op("Add", c.op("Mul", c.x("Input"), c.like(c.attr("Beta"))), product))


@rule("bilinear_tensor_product")
def _bilinear_tensor_product(c: Call) -> None:
    # out[b, k] = x[b] W[k] y[b]
    left = c.op("MatMul", c.unsqueeze(c.x(), [0]), c.x("Weight"))  # [K, B, N]
    out = c.reduce("Sum", c.op("Mul", left, c.unsqueeze(c.x("Y"), [0])), [2], False)
    out = c.transpose(out, [1, 0])
    c.set("Out", c.op("Add", out, c.x("Bias")) if c.has("Bias") else out)


@rule("fsp")
def _fsp(c: Call) -> None:
    (_, channels, height, width), (_, others, *_) = c.shape(), c.shape("Y")
    if -1 in (channels, height, width, others):
        c.fail("sizes have to be known")
    x, y = c.reshape(c.x(), [0, 0, -1]), c.reshape(c.x("Y"), [0, 0, -1])
    out = c.op("MatMul", x, c.transpose(y, [0, 2, 1]))
    c.set("Out", c.op("Div", out, c.like(height * width)))


@rule("batch_fc")
def _batch_fc(c: Call) -> None:
    c.set("Out", c.op("Add", c.op("MatMul", c.x("Input"), c.x("W")), c.unsqueeze(c.x("Bias"), [1])))


@rule("fusion_squared_mat_sub")
def _squared_mat_sub(c: Call) -> None:
    x, y = c.x(), c.x("Y")
    product = c.op("MatMul", x, y)
    squares = c.op("MatMul", c.op("Mul", x, x), c.op("Mul", y, y))
    out = c.op("Sub", c.op("Mul", product, product), squares)
    c.set("Out", c.op("Mul", out, c.like(c.attr("scalar"))))
