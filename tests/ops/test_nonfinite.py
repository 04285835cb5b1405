"""NaN and infinities in values and incoming gradients. 2.0.2's CPU kernels of piecewise operators multiply the gradient
by 0 or 1, so that NaN passes through either piece. Only `clip` selects."""

import numpy as np
import pytest
from case import case, table, to_eager
from paddle import _core

NAN, INF = np.nan, np.inf
ODD = np.array([NAN, -INF, INF, 0.0, 1.0])
A, B = np.array([NAN, 1.0, INF, -INF, 0.0]), np.array([1.0, NAN, -INF, -INF, NAN])


def unary(op, f, **attrs):
    return case(op, [ODD], attrs, lambda x, **_: f(x), dtypes="float32")


test_values = table(
    *(unary(op, getattr(np, op)) for op in ("exp", "log", "sqrt", "tanh", "abs", "square", "floor", "sin", "cos")),
    unary("reciprocal", lambda x: 1 / x),
    unary("rsqrt", lambda x: 1 / np.sqrt(x)),
    unary("sigmoid", lambda x: np.array([NAN, 0, 1, 0.5, 1 / (1 + np.exp(-1))])),
    unary("scale", lambda x: 2 * x + 1, scale=2.0, bias=1.0),
    case(
        "softmax",
        [np.array([[0.0, -INF, 0.0], [NAN, 1.0, 2.0]])],
        expected=np.array([[0.5, 0.0, 0.5], [NAN, NAN, NAN]]),
    ),
    *(
        case("elementwise_" + op, [A, B], expected=f, dtypes="float32")
        for op, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide))
    ),
    case(
        "elementwise_pow",
        [np.array([NAN, 1.0, INF, -8.0, 0.0]), np.array([0.0, NAN, -1.0, 1 / 3, -1.0])],
        expected=np.power,
    ),
    case("reduce_sum", [np.array([[1.0, INF], [NAN, 1.0]])], {"dim": [1]}, np.array([INF, NAN])),
    case("mean", [np.array([INF, -INF])], {}, np.array([NAN])),
    case("where", [np.array([True, False]), np.array([1.0, NAN]), np.array([NAN, INF])], expected=np.array([1.0, INF])),
    case("concat", [[np.array([NAN]), np.array([INF])]], {"axis": 0}, np.array([NAN, INF])),
    case("cumsum", [np.array([1.0, NAN, 1.0])], {}, np.array([1.0, NAN, NAN])),
    case("elementwise_max", [np.array([-INF, INF]), np.array([0.0, 0.0])], expected=np.maximum),
    case(
        "cast",
        [np.array([0.0, NAN, INF])],
        {"in_dtype": 6, "out_dtype": 5},
        np.float32([0, NAN, INF]),
        out_dtype="float32",
    ),
)

# operator, its inputs, attributes, the gradient for an Out@GRAD of ones
PIECES = [
    ("relu", {"X": [-1.0, 0.0, 2.0]}, {}, [0, 0, 1]),
    ("relu6", {"X": [-1.0, 7.0, 2.0]}, {}, [0, 0, 1]),
    ("leaky_relu", {"X": [-1.0, 0.0, 2.0]}, {"alpha": 0.0}, [0, 1, 1]),
    ("hard_sigmoid", {"X": [-9.0, 9.0, 0.0]}, {"slope": 0.25}, [0, 0, 0.25]),
    ("hard_swish", {"X": [-9.0, 9.0, 0.0]}, {}, [0, 1, 0.5]),
    ("abs", {"X": [-1.0, 0.0, 2.0]}, {}, [-1, 0, 1]),
    ("brelu", {"X": [-1.0, 1.0, 25.0]}, {}, [0, 1, 0]),
    ("thresholded_relu", {"X": [-1.0, 1.0, 25.0]}, {}, [0, 0, 1]),
    ("hard_shrink", {"X": [-1.0, 0.25, 0.5]}, {}, [1, 0, 0]),
    ("softshrink", {"X": [-1.0, 0.25, 2.0]}, {}, [1, 0, 1]),
    ("selu", {"X": [2.0]}, {"scale": 1.5}, [1.5]),
    ("elu", {"X": [-1.0, 2.0, -800.0]}, {"alpha": 0.5}, [0.5 * np.exp(-1.0), 1, 0]),
    ("elementwise_max", {"X": [1.0, 2.0, 3.0], "Y": [2.0, 2.0, 2.0]}, {}, [0, 0, 1]),
    ("elementwise_min", {"X": [1.0, 2.0, 3.0], "Y": [2.0, 2.0, 2.0]}, {}, [1, 0, 0]),
    ("where", {"Condition": [True, False], "X": [1.0, 2.0], "Y": [1.0, 2.0]}, {}, [1, 0]),
    ("reduce_max", {"X": [[1.0], [3.0], [3.0]]}, {"dim": [0], "keep_dim": True}, [[0], [1], [1]]),
    ("reduce_min", {"X": [[1.0], [3.0], [3.0]]}, {"dim": [0], "keep_dim": True}, [[1], [0], [0]]),
]


@pytest.mark.parametrize("seed", [1.0, NAN, INF])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op, inputs, attrs, slope", PIECES, ids=[p[0] for p in PIECES])
def test_piecewise_gradients(op, inputs, attrs, slope, dtype, seed) -> None:
    ins = {
        k: to_eager(np.asarray(v) if k == "Condition" else np.asarray(v, dtype), stop=k == "Condition")
        for k, v in inputs.items()
    }
    out = getattr(_core.ops, op)(**ins, **attrs)
    (got,) = _core.partial_grad([out], [ins["X"]], [to_eager(np.full(out.shape, seed, dtype))], [], True, False, True)
    with np.errstate(invalid="ignore"):
        want = seed * np.asarray(slope, dtype)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_clip_selects() -> None:
    x = to_eager(np.array([-2.0, 0.0, 2.0]), stop=False)
    out = _core.ops.clip(x, min=-1.0, max=1.0)
    (got,) = _core.partial_grad([out], [x], [to_eager(np.full(3, NAN))], [], True, False, True)
    np.testing.assert_array_equal(got.numpy(), [0.0, NAN, 0.0])


def test_second_gradients_keep_nan() -> None:
    for op in ("relu", "elu", "leaky_relu"):
        x = to_eager(np.array([-1.0, 2.0]), stop=False)
        dout = to_eager(np.array([1.0, 1.0]), stop=False)
        (dx,) = _core.partial_grad([getattr(_core.ops, op)(x)], [x], [dout], [], True, True, True)
        (ddout,) = _core.partial_grad([dx], [dout], [to_eager(np.full(2, NAN))], [], True, False, True)
        assert np.isnan(ddout.numpy()).all(), op


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers(dtype) -> None:
    """dout * y * x^(y-1) and dout * log(x) * x^y in double precision, then truncated to an integer."""
    x, y, d = (np.array(v, dtype) for v in ([1, 2, 3, 5], [4, 3, 2, 0], [1, 2, 3, 4]))
    tensors = [to_eager(v, stop=False) for v in (x, y, d)]
    assert _core.ops.elementwise_pow(*tensors[:2]).numpy().tolist() == [1, 8, 9, 1]
    got = _core.ops.elementwise_pow_grad(tensors[0], tensors[1], tensors[2])
    np.testing.assert_array_equal(got[0].numpy(), [4, 24, 18, 0])
    np.testing.assert_array_equal(got[1].numpy(), (d * np.log(x) * np.power(x.astype(float), y)).astype(dtype))


def test_complex_gradients_are_conjugate() -> None:
    """2.0.2: d(x * y)/dx is dout * conj(y); d(x / y)/dx is dout / conj(y), d(x / y)/dy is -dout * conj(out / y)."""
    x, y, d = np.array([1 + 2j, -1j]), np.array([3 - 1j, 2 + 2j]), np.array([1 + 1j, 2 - 1j])
    for op, want in (
        ("elementwise_mul", (d * y.conj(), d * x.conj())),
        ("elementwise_div", (d / y.conj(), -d * (x / y / y).conj())),
    ):
        a, b = (to_eager(v, stop=False) for v in (x, y))
        got = _core.partial_grad([getattr(_core.ops, op)(a, b)], [a, b], [to_eager(d)], [], True, False, True)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.numpy(), w, rtol=1e-12)
