"""Pooling of images and volumes."""

import math

import numpy as np
from case import apart, case, ints, real, table
from images import as_given, channels_second, pads

SOME = "float16 float32"


def windows(n, out, k, s, pad, adaptive):
    """(start, end, size with padding) of the windows along an axis."""
    for o in range(out):
        if adaptive:
            yield o * n // out, -(-(o + 1) * n // out), 0
        else:
            start = o * s - pad[0]
            yield max(start, 0), min(start + k, n), min(start + k, n + pad[1]) - start


def places(
    x,
    ksize,
    strides=None,
    paddings=None,
    adaptive=False,
    ceil_mode=False,
    global_pooling=False,
    padding_algorithm="EXPLICIT",
):
    """(shape of the outputs, windows of each axis) for x with the channels second."""
    size = x.shape[2:]
    strides = strides or [1] * len(size)
    if global_pooling:
        ksize = size
    p = pads(size, ksize, strides, paddings or [0] * len(size), padding_algorithm)
    if global_pooling or adaptive:
        p = [(0, 0)] * len(size)
    out = [
        k if adaptive else int((n - k + sum(q) + (s - 1 if ceil_mode else 0)) / s) + 1
        for n, k, s, q in zip(size, ksize, strides, p, strict=True)
    ]
    if ceil_mode and not adaptive:
        # the last window begins within the elements
        out = [min(o, (n + q[0] - 1) // s + 1) for n, o, s, q in zip(size, out, strides, p, strict=True)]
    axes = [list(windows(n, o, k, s, q, adaptive)) for n, o, k, s, q in zip(size, out, ksize, strides, p, strict=True)]
    return out, axes


def parts(x, out, axes):
    """Yields (index, window, bounds) for each output."""
    for at in np.ndindex(*out):
        bounds = [axis[i] for axis, i in zip(axes, at, strict=True)]
        yield at, x[(..., *[slice(a, max(b, 0)) for a, b, _ in bounds])], bounds


def pool(x, pooling_type, ksize, exclusive=True, data_format="NCHW", **attrs):
    x = channels_second(x, data_format)
    out, axes = places(x, ksize, **attrs)
    y = np.zeros((*x.shape[:2], *out))
    over = tuple(range(2, x.ndim))
    for at, part, bounds in parts(x, out, axes):
        if pooling_type == "max":
            y[(..., *at)] = part.max(over)
        else:
            inside = exclusive or attrs.get("adaptive")
            count = math.prod(b - a if inside else full for a, b, full in bounds)
            y[(..., *at)] = part.sum(over) / np.float64(count)
    return as_given(y, data_format)


def pools(x, ksize, **attrs):
    op = f"pool{x.ndim - 2}d"
    attrs = ({"strides": [1, 1, 1], "paddings": [0, 0, 0]} if x.ndim == 5 else {}) | attrs
    return [
        case(op, [x], {"pooling_type": kind, "ksize": ksize, **attrs}, pool, grad="X", dtypes=SOME)
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
    # a window that would begin after the elements is none
    case(
        "pool2d",
        [real(2, 1, 3, 3)],
        {"pooling_type": "avg", "ksize": [2, 3], "strides": [4, 4], "ceil_mode": True},
        pool,
        dtypes="float32 float64",
    ),
    *(
        case(
            "pool2d",
            [real(2, 2, 3, 3)],
            {"pooling_type": kind, "ksize": [1, k], "paddings": [3, 3]},
            raises=ValueError,
            match="below ksize",
        )
        for k in (1, 9)
        for kind in ("max", "avg")
    ),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [4, 4]}, raises=ValueError, match="greater"),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "sum", "ksize": [2, 2]}, raises=ValueError, match="max or avg"),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [2, 2], "strides": [0, 1]}, raises=ValueError),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [0, 2]}, raises=ValueError, match="positive"),
    case("pool2d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [2]}, raises=ValueError, match="dimensions"),
    case("pool2d", [real(1, 2, 0, 3)], {"pooling_type": "avg", "ksize": [1, 1], "adaptive": True}, raises=ValueError),
    case(
        "pool2d",
        [real(1, 2, 0, 3)],
        {"pooling_type": "avg", "ksize": [1, 1], "global_pooling": True},
        raises=ValueError,
    ),
)

test_pool3d = table(
    *pools(apart(2, 2, 3, 4, 5), [2, 2, 3]),
    *pools(apart(1, 2, 4, 5, 5), [3, 2, 3], strides=[2, 2, 1], paddings=[1, 1, 1]),
    *pools(apart(1, 2, 4, 5, 5), [3, 2, 3], strides=[2, 2, 1], paddings=[1, 0, 0, 1, 1, 1], exclusive=False),
    *pools(apart(1, 2, 4, 5, 7), [2, 3, 2], strides=[3, 2, 3], ceil_mode=True),
    *pools(apart(1, 2, 4, 3, 5), [2, 3, 2], adaptive=True),
    *pools(apart(1, 2, 4, 3, 5), [1, 1, 1], global_pooling=True),
    *pools(apart(1, 4, 3, 4, 2), [2, 2, 2], strides=[2, 1, 1], data_format="NDHWC", paddings=[1, 1, 0]),
    *pools(apart(1, 2, 4, 3, 5), [3, 2, 2], strides=[2, 2, 2], padding_algorithm="SAME"),
    *pools(apart(1, 2, 9, 3, 3), [7, 1, 2], paddings=[3, 0, 0]),
    case(
        "pool3d", [real(1, 2, 3, 3, 3)], {"pooling_type": "max", "ksize": [2, 4, 2]}, raises=ValueError, match="greater"
    ),
    case(
        "pool3d", [real(1, 2, 3, 3)], {"pooling_type": "max", "ksize": [2, 2, 2]}, raises=ValueError, match="dimensions"
    ),
)


def indexed(x, ksize, **attrs):
    """Maxima and their indices in the plane."""
    out, axes = places(x, ksize, **attrs)
    y, mask = np.zeros((*x.shape[:2], *out)), np.zeros((*x.shape[:2], *out), "int32")
    for at, part, bounds in parts(x, out, axes):
        flat = part.reshape(*x.shape[:2], -1)
        y[(..., *at)] = flat.max(2)
        inside = np.unravel_index(flat.argmax(2), part.shape[2:])
        where = [i + a for i, (a, *_) in zip(inside, bounds, strict=True)]
        mask[(..., *at)] = np.ravel_multi_index(where, x.shape[2:])
    return y, mask


def with_index(x, ksize, **attrs):
    attrs = ({"strides": [1, 1, 1], "paddings": [0, 0, 0]} if x.ndim == 5 else {}) | attrs
    return case(
        f"max_pool{x.ndim - 2}d_with_index",
        [x],
        {"ksize": ksize, **attrs},
        indexed,
        grad="X",
        dtypes=SOME,
        out_dtype={"Mask": np.dtype("int32")},
    )


test_with_index = table(
    with_index(apart(2, 3, 4, 5), [2, 2]),
    with_index(apart(1, 2, 6, 5), [3, 2], strides=[2, 2], paddings=[1, 1]),
    with_index(apart(1, 2, 5, 7), [2, 3], adaptive=True),
    with_index(apart(1, 2, 5, 4), [1, 1], global_pooling=True, paddings=[1, 1]),
    with_index(apart(1, 2, 3, 4), [1, 1], global_pooling=True, adaptive=True),
    with_index(apart(1, 2, 3, 2, 2), [1, 1, 1], global_pooling=True, adaptive=True, paddings=[1, 1, 1]),
    with_index(apart(1, 2, 3, 4, 5), [2, 2, 3], strides=[1, 2, 1], paddings=[1, 0, 1]),
    with_index(apart(1, 2, 3, 4, 5), [2, 3, 2], adaptive=True),
    case(
        "max_pool2d_with_index",
        [np.full((1, 1, 2, 2), np.nan, "float32")],
        {"ksize": [2, 2]},
        (np.full((1, 1, 1, 1), -np.finfo("float32").max, "float32"), np.full((1, 1, 1, 1), -1, "int32")),
        out_dtype={"Mask": np.dtype("int32")},
    ),
    case("max_pool2d_with_index", [real(1, 2, 3, 3)], {"ksize": [4, 4]}, raises=ValueError, match="greater"),
    case(
        "max_pool2d_with_index",
        [real(1, 2, 3, 3)],
        {"ksize": [2, 2], "paddings": [0, 0, 0, 0]},
        raises=ValueError,
        match="paddings",
    ),
    case("max_pool3d_with_index", [real(1, 2, 3, 3)], {"ksize": [2, 2, 2]}, raises=ValueError, match="dimensions"),
)


def unpool(x, indices, ksize, unpooling_type, strides=(1, 1), paddings=(0, 0)):
    h, w = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], strides, paddings, ksize, strict=True)]
    y = np.zeros((*x.shape[:2], h * w))
    for n, c in np.ndindex(*x.shape[:2]):
        for value, at in zip(x[n, c].ravel(), indices[n, c].ravel(), strict=True):
            y[n, c, at] = value
    return y.reshape(*x.shape[:2], h, w)


INDICES = np.stack([np.random.default_rng(i).permutation(16)[:4].reshape(2, 2) for i in range(6)])
INDICES = INDICES.reshape(2, 3, 2, 2).astype("int32")
MAX = {"unpooling_type": "max"}

test_unpool = table(
    case(
        "unpool",
        [real(2, 3, 2, 2), INDICES],
        {"ksize": [2, 2], "strides": [2, 2], **MAX},
        unpool,
        grad="X",
        dtypes=SOME,
    ),
    case(
        "unpool",
        [real(2, 3, 2, 2), INDICES],
        {"ksize": [4, 4], "strides": [2, 2], "paddings": [1, 1], **MAX},
        unpool,
        grad="X",
    ),
    # A repeated index keeps its last value, which alone has a gradient.
    case("unpool", [real(2, 3, 2, 2), INDICES // 2], {"ksize": [2, 2], "strides": [2, 2], **MAX}, unpool, grad="X"),
    case("unpool", [real(2, 3, 2, 2), INDICES], {"ksize": [2, 2], **MAX}, raises=ValueError, match="less than 9"),
    case(
        "unpool",
        [real(2, 3, 2, 2), -1 - INDICES],
        {"ksize": [2, 2], "strides": [2, 2], **MAX},
        raises=ValueError,
        match="at least 0",
    ),
    case(
        "unpool",
        [real(2, 3, 2, 2), ints(2, 3, 2, 1, high=4).astype("int32")],
        {"ksize": [2, 2], **MAX},
        raises=ValueError,
        match="one shape",
    ),
    case(
        "unpool",
        [real(2, 3, 2, 2), INDICES.astype("int64")],
        {"ksize": [2, 2], "strides": [2, 2], **MAX},
        raises=ValueError,
        match="int32",
    ),
)


def spp(x, pyramid_height, pooling_type):
    levels = []
    for p in range(pyramid_height):
        bins = 2**p
        k = [-(-n // bins) for n in x.shape[2:]]
        pad = [-(-(m * bins - n) // 2) for m, n in zip(k, x.shape[2:], strict=True)]
        level = pool(x, pooling_type, k, strides=k, paddings=pad)
        levels.append(level[:, :, :bins, :bins].reshape(len(x), -1))
    return np.concatenate(levels, 1)


test_spp = table(
    *(
        case("spp", [apart(2, 3, 7, 5)], {"pyramid_height": 2, "pooling_type": kind}, spp, grad="X", dtypes=SOME)
        for kind in ("max", "avg")
    ),
    *(
        case("spp", [apart(2, 2, 4, 8)], {"pyramid_height": 3, "pooling_type": kind}, spp, grad="X")
        for kind in ("max", "avg")
    ),
    case("spp", [real(2, 2, 4, 4)], {"pyramid_height": 0, "pooling_type": "max"}, raises=ValueError, match="pyramid"),
    case("spp", [real(2, 2, 4, 4)], {"pyramid_height": 99, "pooling_type": "max"}, raises=ValueError, match="pyramid"),
    case("spp", [real(2, 4, 4)], {"pyramid_height": 2, "pooling_type": "max"}, raises=ValueError, match="4 dimensions"),
    case(
        "spp", [real(2, 2, 4, 4)], {"pyramid_height": 2, "pooling_type": "min"}, raises=ValueError, match="max or avg"
    ),
)
