"""Activations and other elementwise unary operators."""

import numpy as np
from case import apart, case, ints, real, table
from scipy import special

SOME = "float16 float32"
X = apart(3, 5, step=0.37)
POSITIVE = real(3, 4, low=0.3, high=3.0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(beta * x)) / beta)


def gelu(x, approximate=False):
    if approximate:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + special.erf(x / np.sqrt(2)))


def stanh(x, scale_a=0.67, scale_b=1.7159):
    return np.float64(np.float32(scale_b)) * np.tanh(np.float64(np.float32(scale_a)) * x)


def hard_swish(x, threshold=6.0, scale=6.0, offset=3.0):
    return x * np.clip(x + offset, 0, threshold) / scale


def hard_sigmoid(x, slope=0.2, offset=0.5):
    return np.clip(np.float64(np.float32(slope)) * x + np.float64(np.float32(offset)), 0, 1)


def f32(value):
    """An attribute rounded to float32, as the operator reads it."""
    return np.float64(np.float32(value))


def selu(x, scale=1.0507009873554805, alpha=1.6732632423543772):
    return f32(scale) * np.where(x > 0, x, f32(alpha) * np.expm1(x))


def hard_shrink(x, threshold=0.5):
    return np.where(np.abs(x) > threshold, x, 0 * x)


def softshrink(x, **attrs):
    limit = attrs.get("lambda", 0.5)
    return np.where(x > limit, x - limit, np.where(x < -limit, x + limit, 0 * x))


def soft_relu(x, threshold=40.0):
    return np.log1p(np.exp(np.clip(x, -threshold, threshold)))


def mish(x, threshold=20.0):
    return x * np.tanh(np.where((threshold > 0) & (x > threshold), x, np.log1p(np.exp(x))))


def half_up(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


INSIDE = real(3, 4, low=-0.95, high=0.95)
EDGE = np.array([-np.inf, -1.5, -1.0, -0.0, 0.0, 1.0, 1.5, np.inf, np.nan])

test_activation = table(
    case("log2", [POSITIVE], expected=np.log2, grad="X", dtypes=SOME),
    case("log10", [POSITIVE], expected=np.log10, grad="X", dtypes=SOME),
    case("log1p", [POSITIVE - 1], expected=np.log1p, grad="X", dtypes=SOME),
    case("log1p", [np.array([1e-12, -1e-20])], expected=np.log1p, dtypes="float32"),
    *(
        case(op, [EDGE], expected=getattr(np, op), dtypes="float32")
        for op in ("log1p", "log2", "log10", "sinh", "cosh", "ceil")
    ),
    *(case(op, [EDGE], expected=getattr(np, "arc" + op[1:]), dtypes="float32") for op in ("asin", "acos", "atan")),
    case("sinh", [X], expected=np.sinh, grad="X", dtypes=SOME),
    case("sinh", [np.array([1e-9, 88.9, -710.2])], expected=np.sinh),
    case("cosh", [X], expected=np.cosh, grad="X", dtypes=SOME),
    case("asin", [INSIDE], expected=np.arcsin, grad="X", dtypes=SOME),
    case("acos", [INSIDE], expected=np.arccos, grad="X", dtypes=SOME),
    case("atan", [X], expected=np.arctan, grad="X", dtypes=SOME),
    case("ceil", [X], expected=np.ceil, grad="X", dtypes=SOME),
    case("round", [X], expected=half_up, grad="X", dtypes=SOME),
    case(
        "round",
        [np.array([-2.5, -0.5, 0.49999999999999994, 0.5, 1.5, 2.5])],
        expected=np.array([-3.0, -1.0, 0.0, 1.0, 2.0, 3.0]),
    ),
    case("sign", [X], expected=np.sign, grad="X", second=True, dtypes=SOME),
    case("sign", [np.array([0.0, -0.0, np.inf])], expected=np.array([0.0, 0.0, 1.0])),
    case("brelu", [X * 20], expected=lambda x: np.clip(x, 0, 24), grad="X", dtypes=SOME),
    case("brelu", [X], {"t_min": -0.5, "t_max": 1.25}, lambda x, t_min, t_max: np.clip(x, t_min, t_max), grad="X"),
    case("selu", [X], expected=selu, grad="X", dtypes=SOME),
    case("selu", [X], {"scale": 2.0, "alpha": 0.5}, selu, grad="X"),
    case("thresholded_relu", [X], expected=lambda x: np.where(x > 1, x, 0), grad="X", dtypes=SOME),
    case("thresholded_relu", [np.array([-np.inf, np.nan, 3.0])], {"threshold": 2.0}, np.array([0.0, np.nan, 3.0])),
    case("tanh_shrink", [X], expected=lambda x: x - np.tanh(x), grad="X", dtypes=SOME),
    case("hard_shrink", [X], expected=hard_shrink, grad="X", dtypes=SOME),
    case("hard_shrink", [X], {"threshold": 0.25}, hard_shrink, grad="X"),
    case("softshrink", [X], expected=softshrink, grad="X", dtypes=SOME),
    case(
        "softshrink",
        [np.array([-np.inf, np.inf, np.nan, 1.0])],
        {"lambda": 0.25},
        np.array([-np.inf, np.inf, np.nan, 0.75]),
    ),
    case("softsign", [X], expected=lambda x: x / (1 + np.abs(x)), grad="X", dtypes=SOME),
    case("soft_relu", [X], expected=soft_relu, grad="X", dtypes=SOME),
    case("soft_relu", [X * 2], {"threshold": 2.0}, soft_relu),
    case("mish", [X], expected=mish, grad="X", dtypes=SOME),
    case("mish", [X * 9], {"threshold": -1.0}, mish, grad="X"),
    case("hard_sigmoid", [X * 2], expected=hard_sigmoid, grad="X", dtypes=SOME),
    case("hard_sigmoid", [X], {"slope": 0.5, "offset": 0.25}, hard_sigmoid, grad="X", dtypes="float32"),
    case("hard_sigmoid", [np.array([-np.inf, np.inf, -2.5, 2.5])], expected=np.array([0.0, 1.0, 0.0, 1.0])),
    case("hard_sigmoid", [ints(3)], raises=NotImplementedError),
    case("exp", [X], expected=np.exp, grad="X", second=True, dtypes=SOME),
    case("exp", [real(0, 3)], expected=np.exp, grad="X"),
    case("exp", [real(5, 2)], expected=np.exp, lod={"X": [[0, 1, 5]]}, out_lod={"Out": [[0, 1, 5]]}),
    case("sin", [ints(3)], raises=NotImplementedError),
    case("log", [POSITIVE], expected=np.log, grad="X", second=True, dtypes=SOME),
    case("sqrt", [POSITIVE], expected=np.sqrt, grad="X", second=True, dtypes=SOME),
    case("rsqrt", [POSITIVE], expected=lambda x: 1 / np.sqrt(x), grad="X", second=True, dtypes=SOME),
    case("reciprocal", [X], expected=lambda x: 1 / x, grad="X", dtypes="float32"),
    case("relu", [X], expected=lambda x: np.maximum(x, 0), grad="X", second=True, dtypes=SOME),
    case("relu6", [X * 3], expected=lambda x: np.clip(x, 0, 6), grad="X", dtypes=SOME),
    case("relu6", [X], {"threshold": 1.0}, lambda x, threshold: np.clip(x, 0, threshold), grad="X"),
    case(
        "leaky_relu",
        [X],
        {"alpha": 0.25},
        lambda x, alpha: np.where(x > 0, x, alpha * x),
        grad="X",
        second=True,
        dtypes=SOME,
    ),
    case(
        "elu",
        [X],
        {"alpha": 0.5},
        lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
        grad="X",
        second=True,
        dtypes=SOME,
    ),
    case("elu", [np.array([-800.0, 0.0, 800.0, np.nan])], expected=np.array([-1.0, 0.0, 800.0, np.nan])),
    case("elu", [X], {"alpha": -1.5}, lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), grad="X", second=True),
    case("sigmoid", [X], expected=sigmoid, grad="X", second=True, dtypes=SOME),
    case("sigmoid", [np.array([-800.0, -90.0, 90.0, 800.0])], expected=special.expit, dtypes="float32"),
    case("logsigmoid", [X], expected=lambda x: -np.log1p(np.exp(-x)), grad="X", dtypes=SOME),
    case("tanh", [X], expected=np.tanh, grad="X", second=True, dtypes=SOME),
    case("stanh", [X], expected=stanh, grad="X", dtypes=SOME),
    case("stanh", [X * 3], {"scale_a": 0.25, "scale_b": -2.0}, stanh, grad="X"),
    case("softplus", [X], expected=softplus, grad="X", second=True, dtypes=SOME),
    case("softplus", [X * 10], {"beta": 0.5, "threshold": 3.0}, softplus, grad="X", second=True, grad_tol=1e-4),
    case("swish", [X], expected=lambda x: x * sigmoid(x), grad="X", dtypes=SOME),
    case("swish", [X], {"beta": 2.0}, lambda x, beta: x * sigmoid(beta * x), grad="X"),
    case("hard_swish", [X * 2], expected=hard_swish, grad="X", dtypes=SOME),
    case("hard_swish", [X], {"threshold": 4.0, "scale": 2.0, "offset": 1.0}, hard_swish, grad="X"),
    case("erf", [X], expected=special.erf, grad="X", dtypes=SOME),
    case("gelu", [X], expected=gelu, grad="X", dtypes=SOME),
    case("gelu", [X], {"approximate": True}, gelu, grad="X", dtypes=SOME),
    case("sin", [X * 3], expected=np.sin, grad="X", second=True, dtypes=SOME),
    case("cos", [X * 3], expected=np.cos, grad="X", second=True, dtypes=SOME),
    case("abs", [X], expected=np.abs, grad="X", second=True, dtypes=SOME),
    case("abs", [ints(4)], expected=np.abs, dtypes="int32"),
    case("square", [X], expected=np.square, grad="X", second=True, dtypes=SOME),
    case("square", [ints(4)], expected=np.square, dtypes="int32"),
    case("exp", [ints(4)], expected=lambda x: np.exp(x).astype(x.dtype), dtypes="int32"),
    case("floor", [X], expected=np.floor, grad="X", dtypes=SOME),
)
