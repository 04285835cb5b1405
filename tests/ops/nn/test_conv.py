"""Convolution of images and volumes, and transposed convolution."""

import paddle
from case import case, real, table
from images import conv, conv_transpose

SOME = "float16 float32"


def convs(op, x, w, second=True, **attrs):
    return case(op, [x, w], attrs, conv, grad="Input Filter", second=second, dtypes=SOME, tol=4e-3, grad_tol=1e-4)


test_conv = table(
    convs("conv2d", real(2, 3, 5, 4), real(4, 3, 3, 2)),
    convs("conv2d", real(2, 2, 5, 5), real(4, 2, 3, 3), strides=[2, 1], paddings=[1, 2]),
    convs("conv2d", real(1, 2, 6, 5), real(2, 2, 3, 2), paddings=[1, 0, 2, 1], dilations=[2, 1]),
    convs("conv2d", real(1, 4, 4, 4), real(6, 2, 2, 2), groups=2),
    convs("conv2d", real(2, 5, 4, 3), real(4, 3, 2, 2), data_format="NHWC", strides=[1, 2]),
    convs("conv2d", real(1, 2, 5, 6), real(3, 2, 3, 2), padding_algorithm="SAME", strides=[2, 3], dilations=[2, 2]),
    convs("conv2d", real(1, 2, 5, 6), real(3, 2, 3, 2), padding_algorithm="VALID", paddings=[7, 7]),
    convs("conv2d", real(1, 3, 4, 4), real(5, 3, 1, 1)),
    convs("conv2d", real(2, 2, 3, 2), real(3, 2, 4, 2), strides=[3, 1]),
    convs("conv2d", real(2, 3, 9, 1), real(4, 3, 3, 1), strides=[2, 1], paddings=[1, 0]),
    convs("conv2d", real(2, 1, 2, 3), real(3, 3, 2, 3), strides=[4, 3], dilations=[2, 1], data_format="NHWC"),
    convs("depthwise_conv2d", real(1, 2, 1, 1), real(4, 1, 3, 3), groups=2, strides=[4, 3], paddings=[0, 1]),
    convs("depthwise_conv2d", real(2, 3, 5, 4), real(3, 1, 3, 3), groups=3, paddings=[1, 1]),
    convs("depthwise_conv2d", real(1, 2, 5, 5), real(4, 1, 2, 2), groups=2, strides=[2, 2]),
    convs("depthwise_conv2d", real(1, 5, 5, 3), real(3, 1, 3, 3), groups=3, data_format="NHWC", paddings=[1, 1]),
    case(
        "conv2d",
        {"Input": real(2, 2, 3, 3), "Filter": real(3, 2, 2, 2), "Bias": real(3)},
        expected=conv,
        grad="Input Filter Bias",
        dtypes="float32",
    ),
    case("conv2d", [real(0, 2, 3, 3), real(3, 2, 2, 2)], expected=conv, grad="Input Filter"),
    case("conv2d", [real(2, 2, 3, 3), real(0, 2, 2, 2)], expected=conv, grad="Input"),
    case("conv2d", [real(1, 16, 15, 17), real(24, 16, 3, 3)], {"paddings": [1, 1]}, conv, dtypes="float32", tol=1e-4),
    case("conv2d", [real(1, 2, 3, 3), real(3, 3, 2, 2)], raises=ValueError, match="channels"),
    case("conv2d", [real(1, 2, 3, 3), real(3, 2, 4, 2)], raises=ValueError, match="empty"),
    case("conv2d", [real(1, 2, 3, 3), real(3, 2, 2, 2)], {"strides": [0, 1]}, raises=ValueError, match="positive"),
    case("conv2d", [real(1, 2, 3, 3), real(3, 2, 2, 2)], {"groups": 0}, raises=ValueError, match="positive"),
    case("conv2d", [real(1, 2, 3, 3), real(3, 1, 2, 2)], {"groups": 2}, raises=ValueError, match="divisible"),
    case("conv2d", [real(1, 2, 3, 3), real(3, 2, 2, 2)], {"paddings": [1]}, raises=ValueError, match="paddings"),
    case("conv2d", [real(1, 2, 3, 3), real(3, 2, 2, 2)], {"paddings": [-1, 2]}, raises=ValueError, match="negative"),
    case("conv2d", [real(2, 3, 3), real(3, 2, 2)], raises=ValueError, match="dimensions"),
    case("conv2d", [real(1, 2, 3, 3), real(3, 2, 0, 2)], raises=ValueError, match="must be positive"),
)


def volumes(x, w, **attrs):
    three = {"strides": [1, 1, 1], "paddings": [0, 0, 0], "dilations": [1, 1, 1], "data_format": "NCDHW"} | attrs
    return convs("conv3d", x, w, **three)


test_conv3d = table(
    volumes(real(2, 2, 3, 4, 5), real(3, 2, 2, 3, 2)),
    volumes(real(1, 2, 4, 3, 5), real(2, 2, 3, 3, 3), strides=[2, 1, 2], paddings=[1, 1, 1]),
    volumes(real(1, 2, 4, 3, 4), real(2, 2, 2, 2, 2), dilations=[2, 1, 3], paddings=[1, 0, 0, 2, 1, 1]),
    volumes(real(1, 4, 2, 3, 3), real(4, 2, 2, 2, 2), groups=2),
    volumes(real(1, 3, 3, 3, 4), real(3, 1, 2, 3, 3), groups=3, paddings=[1, 1, 1]),
    volumes(real(1, 3, 3, 4, 2), real(3, 2, 2, 2, 2), data_format="NDHWC", strides=[1, 2, 1]),
    volumes(real(1, 3, 3, 4, 2), real(2, 1, 3, 2, 2), data_format="NDHWC", groups=2, paddings=[1, 0, 1]),
    volumes(real(1, 2, 4, 3, 5), real(2, 2, 3, 2, 3), padding_algorithm="SAME", strides=[2, 1, 3], dilations=[2, 2, 2]),
    volumes(real(1, 2, 3, 4, 4), real(2, 2, 1, 3, 3), paddings=[0, 1, 1]),
    volumes(real(1, 2, 4, 2, 3), real(2, 2, 3, 1, 1), paddings=[1, 0, 0]),
    volumes(real(2, 3, 2, 3, 3), real(4, 3, 1, 1, 1)),
    volumes(real(1, 2, 3, 3, 3), real(2, 2, 1, 1, 1), strides=[2, 3, 2]),
    case(
        "conv3d",
        [real(0, 2, 3, 3, 3), real(3, 2, 2, 2, 2)],
        {"strides": [1, 1, 1], "paddings": [0, 0, 0], "dilations": [1, 1, 1], "data_format": "NCDHW"},
        conv,
        grad="Input Filter",
    ),
    case(
        "conv3d",
        [real(1, 20, 4, 9, 21), real(40, 20, 3, 3, 3)],
        {"strides": [1, 1, 1], "paddings": [1, 1, 1], "dilations": [1, 1, 1], "data_format": "NCDHW"},
        conv,
        dtypes="float32",
        tol=1e-3,
    ),
    case("conv3d", [real(1, 2, 3, 3, 3), real(3, 3, 2, 2, 2)], raises=ValueError, match="channels"),
    case("conv3d", [real(1, 2, 3, 3, 3), real(3, 2, 2, 4, 2)], raises=ValueError, match="empty"),
    case("conv3d", [real(1, 2, 3, 3), real(3, 2, 2, 2)], raises=ValueError, match="dimensions"),
)


def transposed(op, x, w, **attrs):
    second = op == "conv2d_transpose"
    return case(
        op, [x, w], attrs, conv_transpose, grad="Input Filter", second=second, dtypes=SOME, tol=4e-3, grad_tol=1e-4
    )


THREE = {"strides": [1, 1, 1], "paddings": [0, 0, 0], "dilations": [1, 1, 1], "data_format": "NCDHW"}
X, W = real(1, 2, 3, 3), real(2, 3, 2, 2)

test_transpose = table(
    transposed("conv2d_transpose", real(2, 3, 3, 4), real(3, 2, 3, 2)),
    transposed("conv2d_transpose", real(1, 3, 3, 4), real(3, 2, 3, 3), strides=[2, 3], paddings=[1, 1]),
    transposed("conv2d_transpose", real(1, 4, 3, 3), real(4, 2, 3, 2), groups=2, dilations=[2, 1]),
    transposed("conv2d_transpose", real(1, 2, 3, 4), real(2, 2, 3, 3), strides=[2, 2], paddings=[1, 0, 2, 1]),
    transposed("conv2d_transpose", real(1, 2, 3, 4), real(2, 2, 3, 3), strides=[2, 2], output_size=[8, 9]),
    transposed("conv2d_transpose", real(1, 2, 3, 4), real(2, 2, 3, 3), strides=[2, 3], output_padding=[1, 2]),
    transposed("conv2d_transpose", real(2, 3, 4, 3), real(3, 2, 3, 2), data_format="NHWC", strides=[2, 1]),
    transposed("conv2d_transpose", real(1, 3, 4, 4), real(4, 1, 2, 2), data_format="NHWC", groups=2),
    transposed("conv2d_transpose", real(1, 2, 5, 4), real(2, 3, 3, 3), padding_algorithm="SAME", strides=[2, 1]),
    transposed("conv2d_transpose", real(1, 2, 3, 4), real(2, 3, 3, 3), padding_algorithm="VALID", paddings=[1, 1]),
    transposed("conv2d_transpose", real(1, 2, 2, 2), real(2, 3, 2, 1), strides=[4, 3]),
    transposed("conv2d_transpose", real(1, 2, 1, 1), real(2, 3, 4, 4), strides=[4, 4], paddings=[1, 1]),
    case(
        "conv2d_transpose",
        {"Input": X, "Filter": W, "Bias": real(3)},
        expected=conv_transpose,
        grad="Input Filter Bias",
        dtypes="float32",
    ),
    case(
        "conv2d_transpose",
        {"Input": real(2, 3, 3, 2), "Filter": W, "Bias": real(3)},
        {"data_format": "NHWC"},
        lambda x, w, b, **a: conv_transpose(x, w, b, **a),
        grad="Input Filter Bias",
    ),
    case("conv2d_transpose", [real(0, 2, 3, 3), W], expected=conv_transpose, grad="Input Filter"),
    transposed("depthwise_conv2d_transpose", real(1, 3, 3, 4), real(3, 1, 3, 3), groups=3, strides=[2, 1]),
    transposed("depthwise_conv2d_transpose", real(2, 3, 4, 3), real(3, 1, 2, 3), groups=3, data_format="NHWC"),
    transposed("conv3d_transpose", real(1, 2, 2, 3, 2), real(2, 3, 2, 2, 3), **THREE),
    transposed(
        "conv3d_transpose",
        real(1, 2, 2, 3, 2),
        real(2, 2, 3, 2, 3),
        **THREE | {"strides": [2, 1, 3], "paddings": [1, 0, 1], "output_padding": [1, 0, 2]},
    ),
    transposed(
        "conv3d_transpose",
        real(1, 4, 2, 2, 2),
        real(4, 1, 2, 3, 2),
        groups=2,
        **THREE | {"dilations": [2, 1, 2], "strides": [1, 2, 1]},
    ),
    transposed(
        "conv3d_transpose",
        real(1, 2, 3, 2, 2),
        real(2, 3, 2, 2, 2),
        **THREE | {"data_format": "NDHWC", "strides": [2, 2, 1]},
    ),
    case("conv2d_transpose", [X, real(3, 2, 2, 2)], raises=ValueError, match="channels"),
    case("conv2d_transpose", [X, W], {"groups": 4}, raises=ValueError, match="divisible"),
    case("conv2d_transpose", [X, W], {"output_size": [3, 4]}, raises=ValueError, match="output_size"),
    case("conv2d_transpose", [X, W], {"output_size": [5, 4]}, raises=ValueError, match="output_size"),
    case("conv2d_transpose", [X, W], {"output_size": [4]}, raises=ValueError, match="output_size"),
    case("conv2d_transpose", [X, W], {"output_padding": [1, 0]}, raises=ValueError, match="output_padding"),
    case("conv2d_transpose", [X, W], {"output_padding": [-1, 0]}, raises=ValueError, match="output_padding"),
    case("conv2d_transpose", [X, W], {"paddings": [2, 2]}, raises=ValueError, match="empty"),
    case("conv2d_transpose", [X, W], {"strides": [1 << 30, 1 << 30]}, raises=(ValueError, MemoryError, RuntimeError)),
    case("conv3d_transpose", [X, W], raises=ValueError, match="dimensions"),
)


def test_shapes_of_programs_keep_unknown_sizes() -> None:
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [-1, 2, -1, 5], "float32")
            w = paddle.static.data("w", [2, 3, 3, 3], "float32")
            y = paddle._ops.conv2d_transpose(x, w, strides=[2, 2])
            assert tuple(y.shape) == (-1, 3, -1, 11)
    finally:
        paddle.disable_static()
