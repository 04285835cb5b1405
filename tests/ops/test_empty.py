"""Tensors without elements: shapes, types and gradients."""

import numpy as np
from case import case, ints, real, table

E = real(0, 3)
UNARY = """exp log sqrt rsqrt reciprocal relu relu6 leaky_relu elu hard_sigmoid sigmoid logsigmoid tanh stanh softplus
swish hard_swish erf gelu sin cos abs square floor pow clip scale assign log2 log10 log1p sinh cosh asin acos atan ceil
round sign brelu selu thresholded_relu tanh_shrink hard_shrink softshrink softsign soft_relu mish""".split()
BINARY = "add sub mul div max min pow".split()


def to(*shape):
    return lambda *_, **__: np.zeros(shape)


test_unary = table(
    *(
        case(op, [E], {"min": 0.0, "max": 1.0} if op == "clip" else {}, to(0, 3), grad="X", dtypes="float32")
        for op in UNARY
    )
)
test_binary = table(
    *(case("elementwise_" + op, [E, real(3)], {}, to(0, 3), grad="X Y", dtypes="float32") for op in BINARY),
    *(case("elementwise_" + op, [real(2, 1), real(2, 0)], {}, to(2, 0), grad="X Y") for op in BINARY),
    *(
        case("elementwise_" + op, [ints(0, 3), ints(3, low=1)], expected=lambda *_: np.zeros((0, 3), "int64"))
        for op in ("mod", "floordiv")
    ),
)
test_moves = table(
    case("concat", [[E, real(2, 3)]], {"axis": 0}, lambda x, axis: x[1], grad="X", dtypes="float32"),
    case("concat", [[E, E]], {"axis": 1}, to(0, 6), grad="X"),
    case("split", [E], {"num": 3, "axis": 1}, lambda *_, **__: [np.zeros((0, 1))] * 3, grad="X", grad_of="Out"),
    case("stack", [[E, E]], {"axis": 1}, to(0, 2, 3), grad="X"),
    case("unstack", [real(2, 0)], {"axis": 0, "num": 2}, lambda *_, **__: [np.zeros(0)] * 2, grad="X", grad_of="Y"),
    case("transpose2", [E], {"axis": [1, 0]}, to(3, 0), grad="X"),
    case("squeeze2", [real(0, 1)], {"axes": [1]}, to(0), grad="X"),
    case("unsqueeze2", [E], {"axes": [0]}, to(1, 0, 3), grad="X"),
    case("flatten_contiguous_range", [real(0, 2, 2)], {"start_axis": 1, "stop_axis": 2}, to(0, 4), grad="X"),
    case("slice", [E], {"axes": [1], "starts": [1], "ends": [3]}, to(0, 2), grad="Input"),
    case("strided_slice", [E], {"axes": [1], "starts": [0], "ends": [3], "strides": [2]}, to(0, 2), grad="Input"),
    case("gather", [real(3, 2), np.zeros(0, "int64")], {}, to(0, 2), grad="X"),
    case("where", [np.zeros((0, 3), bool), E, E], {}, to(0, 3), grad="X Y"),
    case("where_index", [np.zeros((0, 3), bool)], {}, np.zeros((0, 2), "int64")),
    case("one_hot_v2", [np.zeros(0, "int64")], {"depth": 3}, to(0, 3), out_dtype="float32"),
    case("lookup_table_v2", [real(4, 2), np.zeros((0, 3), "int64")], {}, to(0, 3, 2), grad="W"),
    case("fill_constant", {}, {"shape": [0, 2], "value": 1.0}, np.zeros((0, 2), "float32")),
    case("fill_any_like", [E], {"value": 1.0}, to(0, 3)),
    case("fill_zeros_like", [E], {}, to(0, 3)),
    case("cast", [E], {"in_dtype": 6, "out_dtype": 3}, np.zeros((0, 3), "int64")),
    case("sum", [[E, E]], {}, to(0, 3), grad="X"),
    case("matmul", [E, real(3, 2)], {}, to(0, 2), grad="X Y"),
    case("matmul", [real(2, 0), real(0, 3)], {}, to(2, 3), grad="X Y"),
    case("layer_norm", [E, real(3), real(3)], {}, {"Y": np.zeros((0, 3))}),
    case("sigmoid_cross_entropy_with_logits", [E, E], {}, to(0, 3), grad="X"),
)
