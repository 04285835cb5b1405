"""Convolutions fused with bias, residual and activation."""

import numpy as np
from case import case, real, table
from images import conv

ACTIVATIONS = {
    "identity": lambda v: v,
    "relu": lambda v: np.maximum(v, 0),
    "relu6": lambda v: np.clip(v, 0, 6),
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
}


def fusion(x, w, bias, residual=None, activation="relu", split_channels=(), **attrs):
    y = conv(x, w, bias, **attrs)
    y = ACTIVATIONS[activation](y if residual is None else y + residual)
    if not split_channels:
        return y
    return y, np.split(y, np.cumsum(split_channels)[:-1], 1)


X, W, B = real(2, 2, 4, 4), real(3, 2, 2, 2), real(3)


def branches(x, w0, w1, w2, w3, b0, b1, b2, b3, pooling_type, activation="relu", exclusive=True):
    act = ACTIVATIONS[activation]
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf if pooling_type == "max" else 0)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    if pooling_type == "max":
        pooled = windows.max((-1, -2))
    else:
        ones = np.pad(np.ones(x.shape[2:]), 1)
        count = np.lib.stride_tricks.sliding_window_view(ones, (3, 3)).sum((-1, -2)) if exclusive else 9
        pooled = windows.sum((-1, -2)) / count
    first = act(conv(pooled, w0, b0))
    wide = act(conv(x, w1, b1))
    own = w1.shape[0] - 2 * w2.shape[1]
    third = act(conv(wide[:, own:], w2, b2, paddings=(1, 1), groups=2))
    kept = w2.shape[0] - w3.shape[1]
    fourth = act(conv(third[:, kept:], w3, b3, paddings=(1, 1)))
    return np.concatenate([first, wide[:, :own], third[:, :kept], fourth], 1)


FILTERS = [real(2, 3, 1, 1), real(7, 3, 1, 1, seed=2), real(6, 2, 3, 3, seed=3), real(2, 4, 3, 3, seed=4)]
BIASES = [real(2), real(7, seed=2), real(6, seed=3), real(2, seed=4)]


def inception(x=None, filters=FILTERS, **attrs):
    attrs = {"pooling_type": "max"} | attrs
    wrong = attrs.pop("wrong", None)
    inputs = {"Input": real(2, 3, 4, 5) if x is None else x, "Filter": filters, "Bias": BIASES}
    if wrong:
        return case("conv2d_inception_fusion", inputs, attrs, raises=ValueError, match=wrong)
    return case(
        "conv2d_inception_fusion",
        inputs,
        attrs,
        lambda x, w, b, **a: (branches(x, *w, *b, **a), None),
        dtypes="float32",
        tol=1e-4,
        static=False,
    )


test_conv2d_fusion = table(
    case("conv2d_fusion", [X, W, B], {"paddings": [1, 1]}, fusion, dtypes="float16 float32", tol=1e-2),
    *(
        case("conv2d_fusion", [X, W, B], {"activation": a, "strides": [2, 1]}, fusion, dtypes="float32")
        for a in ACTIVATIONS
    ),
    case("conv2d_fusion", [X, W, B, real(2, 3, 3, 3)], expected=fusion),
    case("conv2d_fusion", [X, W, B], {"split_channels": [1, 2]}, fusion, static=False),
    case("conv2d_fusion", [X, W, B, real(2, 3, 3, 2)], raises=ValueError, match="ResidualData"),
    case("conv2d_fusion", [X, W, real(2)], raises=ValueError, match="Bias"),
    case("conv2d_fusion", [X, W, B], {"activation": "gelu"}, raises=ValueError, match="activation"),
    case("conv2d_fusion", [X, W, B], {"split_channels": [1, 1]}, raises=ValueError, match="split_channels"),
    case("conv2d_fusion", [X, W, B], {"data_format": "NHWC"}, raises=RuntimeError, match="NCHW"),
)

test_conv2d_inception_fusion = table(
    inception(),
    inception(pooling_type="avg", activation="tanh"),
    inception(pooling_type="avg", exclusive=False, activation="identity"),
    inception(filters=FILTERS[:3], wrong="four filters"),
    inception(filters=[FILTERS[0], real(3, 3, 1, 1), *FILTERS[2:]], wrong="fewer channels"),
    inception(filters=[real(2, 3, 3, 3), *FILTERS[1:]], wrong="keep the size"),
    inception(x=real(2, 4, 4, 5), wrong="channels"),
)
