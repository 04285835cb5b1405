"""Convolution and pooling of images."""

import numpy as np
from case import apart, case, real, table

SOME = "float16 float32"


def pads(size, kernel, strides, paddings, algorithm):
    """((before, after) of both axes)."""
    if algorithm == "VALID":
        return [(0, 0), (0, 0)]
    if algorithm == "SAME":
        total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, strides, strict=True)]
        return [(t // 2, t - t // 2) for t in total]
    if len(paddings) == 2:
        return [(p, p) for p in paddings]
    return [tuple(paddings[:2]), tuple(paddings[2:])]


def conv(x, w, bias=None, strides=(1, 1), paddings=(0, 0), dilations=(1, 1), groups=1, data_format="NCHW",
         padding_algorithm="EXPLICIT"):  # fmt: skip
    if data_format == "NHWC":
        x = x.transpose(0, 3, 1, 2)
    if padding_algorithm == "SAME":
        dilations = (1, 1)
    p = pads(x.shape[2:], w.shape[2:], strides, paddings, padding_algorithm)
    x = np.pad(x, [(0, 0), (0, 0), *p])
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    # C++'s division: a filter too large by less than a stride has one output, over zeros behind the input
    h, v = [int((n - r) / s) + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    x = np.pad(x, [(0, 0), (0, 0), *[(0, max(r - n, 0)) for n, r in zip(x.shape[2:], reach, strict=True)]])
    out = np.zeros((x.shape[0], w.shape[0], h, v))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        first = o // per_out * per_in
        for i in range(h):
            for j in range(v):
                a, b = i * strides[0], j * strides[1]
                patch = x[:, first : first + per_in, a : a + reach[0] : dilations[0], b : b + reach[1] : dilations[1]]
                out[:, o, i, j] = (patch * w[o]).sum((1, 2, 3))
    if bias is not None:
        out += bias.reshape(1, -1, 1, 1)
    return out.transpose(0, 2, 3, 1) if data_format == "NHWC" else out


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
    convs("conv2d", real(2, 1, 2, 3), real(3, 3, 2, 3), strides=[4, 3], dilations=[2, 1], data_format="NHWC"),
    convs("depthwise_conv2d", real(1, 2, 1, 1), real(4, 1, 3, 3), groups=2, strides=[4, 3], paddings=[0, 1]),
    convs("depthwise_conv2d", real(2, 3, 5, 4), real(3, 1, 3, 3), groups=3, paddings=[1, 1]),
    convs("depthwise_conv2d", real(1, 2, 5, 5), real(4, 1, 2, 2), groups=2, strides=[2, 2]),
    convs("depthwise_conv2d", real(1, 5, 5, 3), real(3, 1, 3, 3), groups=3, data_format="NHWC", paddings=[1, 1]),
    case("conv2d", {"Input": real(2, 2, 3, 3), "Filter": real(3, 2, 2, 2), "Bias": real(3)}, expected=conv,
         grad="Input Filter Bias", dtypes="float32"),
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
    case("conv2d", [real(1, 2, 3, 3), real(3, 2, 0, 2)], raises=ValueError, match="empty"),
)  # fmt: skip


def windows(n, out, k, s, pad, adaptive):
    for o in range(out):
        if adaptive:
            yield o * n // out, -(-(o + 1) * n // out), k
        else:
            start = o * s - pad
            yield max(start, 0), min(start + k, n), k


def pool(x, pooling_type, ksize, strides=(1, 1), paddings=(0, 0), exclusive=True, adaptive=False, ceil_mode=False,
         global_pooling=False, data_format="NCHW", padding_algorithm="EXPLICIT"):  # fmt: skip
    if data_format == "NHWC":
        x = x.transpose(0, 3, 1, 2)
    size = x.shape[2:]
    if global_pooling:
        ksize = size
    p = pads(size, ksize, strides, paddings, padding_algorithm)
    if global_pooling or adaptive:
        p = [(0, 0), (0, 0)]
    out = [
        k if adaptive else int((n - k + sum(q) + (s - 1 if ceil_mode else 0)) / s) + 1
        for n, k, s, q in zip(size, ksize, strides, p, strict=True)
    ]
    y = np.zeros((*x.shape[:2], *out))
    rows = list(windows(size[0], out[0], ksize[0], strides[0], p[0][0], adaptive))
    cols = list(windows(size[1], out[1], ksize[1], strides[1], p[1][0], adaptive))
    for i, (a, b, kh) in enumerate(rows):
        for j, (c, d, kw) in enumerate(cols):
            part = x[:, :, a : max(b, 0), c : max(d, 0)]
            if pooling_type == "max":
                y[:, :, i, j] = part.max((2, 3))
            else:
                y[:, :, i, j] = part.sum((2, 3)) / ((b - a) * (d - c) if exclusive or adaptive else kh * kw)
    return y.transpose(0, 2, 3, 1) if data_format == "NHWC" else y


def pools(x, ksize, **attrs):
    return [
        case("pool2d", [x], {"pooling_type": kind, "ksize": ksize, **attrs}, pool, grad="X", dtypes=SOME)
        for kind in ("max", "avg")
    ]


test_pool = table(
    *pools(apart(2, 3, 4, 5), [2, 2]),
    *pools(apart(2, 2, 6, 5), [3, 2], strides=[2, 2], paddings=[1, 1]),
    *pools(apart(2, 2, 6, 5), [3, 2], strides=[2, 2], paddings=[1, 1], exclusive=False),
    *pools(apart(1, 2, 6, 5), [3, 2], strides=[2, 2], paddings=[1, 0, 0, 1]),
    *pools(apart(1, 2, 6, 7), [3, 2], strides=[2, 3], ceil_mode=True),
    *pools(apart(1, 2, 6, 7), [2, 3], strides=[2, 2], ceil_mode=True, paddings=[1, 1], exclusive=False),
    *pools(apart(1, 2, 5, 7), [2, 3], adaptive=True),
    *pools(apart(1, 2, 3, 4), [5, 3], adaptive=True),
    *pools(apart(2, 2, 5, 4), [1, 1], global_pooling=True, paddings=[3, 3]),
    *pools(apart(2, 5, 4, 3), [2, 2], strides=[2, 1], data_format="NHWC", paddings=[1, 1]),
    *pools(apart(1, 2, 5, 6), [3, 2], strides=[2, 2], padding_algorithm="SAME"),
    *pools(apart(1, 2, 5, 6), [3, 2], strides=[2, 2], padding_algorithm="VALID", paddings=[1, 1]),
    *pools(apart(0, 2, 5, 6), [3, 2]),
    *pools(apart(2, 2, 3, 1), [4, 2], strides=[2, 2]),
    *pools(apart(1, 1, 8, 2), [3, 4], strides=[3, 3], data_format="NHWC", paddings=[0, 1]),
    # windows beside the input: minus zero where Paddle counts less than none, NaN where it counts none
    case("pool2d", [real(2, 1, 3, 3)],
         {"pooling_type": "avg", "ksize": [2, 3], "strides": [4, 4], "ceil_mode": True}, pool,
         dtypes="float32 float64"),
    *(case("pool2d", [real(2, 2, 3, 3)], {"pooling_type": "avg", "ksize": [1, k], "paddings": [3, 3]}, pool)
      for k in (1, 9)),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [4, 4]}, raises=ValueError, match="greater"),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "sum", "ksize": [2, 2]}, raises=ValueError, match="max or avg"),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [2, 2], "strides": [0, 1]}, raises=ValueError),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [0, 2]}, raises=ValueError, match="positive"),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [2]}, raises=ValueError, match="dimensions"),
    case("pool2d", [real(1, 2, 0, 3)], {"pooling_type": "avg", "ksize": [1, 1], "adaptive": True}, raises=ValueError),
    case("pool2d", [real(1, 2, 0, 3)], {"pooling_type": "avg", "ksize": [1, 1], "global_pooling": True},
         raises=ValueError),
)  # fmt: skip
