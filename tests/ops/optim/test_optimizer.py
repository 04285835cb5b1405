"""Optimizers and operators on SelectedRows."""

import numpy as np
import pytest
from case import Rows, case, check, from_eager, real, table, to_eager
from paddle import _core

SOME = "float16 float32"
RATE = np.array([0.1])


def grad_of(g):
    return g.dense() if isinstance(g, Rows) else g


def sgd(param, rate, grad):
    return param - rate[0] * grad_of(grad)


ROWS = Rows([4, 1, 4], 6, real(3, 2, seed=5))
EMPTY = Rows([], 6, np.zeros((0, 2)))
LARGE = Rows(list(np.arange(3000) * 7919 % 4096), 4096, real(3000, 40, seed=5))

test_sgd = table(
    case("sgd", [real(3, 4), RATE, real(3, 4, seed=1)], expected=sgd, dtypes=SOME),
    case("sgd", [real(300, 100), RATE, real(300, 100, seed=1)], expected=sgd, dtypes="float32"),
    case("sgd", [real(6, 2), RATE, ROWS], expected=sgd, dtypes=SOME),
    case("sgd", [real(6, 2), RATE, EMPTY], expected=lambda p, r, g: p),
    case("sgd", [real(4096, 40), RATE, LARGE], expected=sgd, dtypes="float32"),
    case("sgd", [real(3, 4), RATE, real(3, 5)], raises=ValueError, match="same shape"),
    case("sgd", [real(3, 4), real(2), real(3, 4)], raises=ValueError, match="one element"),
    case("sgd", [real(6, 2), RATE, Rows([6], 6, real(1, 2))], raises=IndexError, match="row 6"),
    case("sgd", [real(6, 2), RATE, Rows([1], 7, real(1, 2))], raises=ValueError, match="height 7"),
    case("sgd", [real(6, 2), RATE, Rows([1, 2], 6, real(1, 2))], raises=ValueError, match="rows"),
)


def momentum(
    param,
    grad,
    velocity,
    rate,
    mu,
    use_nesterov=False,
    regularization_method="",
    regularization_coeff=0.0,
    rescale_grad=1.0,
):
    g = grad_of(grad) * rescale_grad
    if regularization_method == "l2_decay":
        g = g + regularization_coeff * param
    v = mu * velocity + g
    return param - rate[0] * (g + mu * v if use_nesterov else v), v


def momenta(*inputs, **attrs):
    return case("momentum", inputs, {"mu": 0.5, **attrs}, momentum, dtypes=SOME, tol=4e-3)


DECAY = {"regularization_method": "l2_decay", "regularization_coeff": 0.25}
test_momentum = table(
    momenta(real(3, 4), real(3, 4, seed=1), real(3, 4, seed=2), RATE),
    momenta(real(3, 4), real(3, 4, seed=1), real(3, 4, seed=2), RATE, use_nesterov=True),
    momenta(real(3, 4), real(3, 4, seed=1), real(3, 4, seed=2), RATE, use_nesterov=True, **DECAY),
    momenta(real(3, 4), real(3, 4, seed=1), real(3, 4, seed=2), RATE, rescale_grad=0.5, **DECAY),
    momenta(real(6, 2), ROWS, real(6, 2, seed=2), RATE),
    momenta(real(6, 2), ROWS, real(6, 2, seed=2), RATE, use_nesterov=True, **DECAY),
    momenta(real(200, 300), real(200, 300, seed=1), real(200, 300, seed=2), RATE),
    case("momentum", [real(6, 2), EMPTY, real(6, 2), RATE], {"mu": 0.5}, lambda p, g, v, r, mu: (p, v)),
    case("momentum", [real(3), real(3), real(4), RATE], {"mu": 0.5}, raises=ValueError, match="Velocity"),
    case(
        "momentum",
        [real(3), real(3), real(3), RATE],
        {"mu": 0.5, "multi_precision": True},
        raises=ValueError,
        match="MasterParam",
    ),
)


def adam(param, grad, rate, m, v, p1, p2, beta1=0.9, beta2=0.999, epsilon=1e-8, lazy_mode=False):
    # Attributes are float32.
    b1, b2, epsilon = (float(np.float32(x)) for x in (beta1, beta2, epsilon))
    g = grad_of(grad)
    m2, v2 = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    left = np.sqrt(1 - p2[0])
    idle = np.ones(len(param), bool)
    idle[grad.rows if isinstance(grad, Rows) else slice(None)] = False
    # Rows without a gradient use the plain epsilon, as in Paddle's CPU kernel.
    epsilons = np.where(idle, epsilon, epsilon * left).reshape((-1,) + (1,) * (param.ndim - 1))
    new = param - rate[0] * left / (1 - p1[0]) * m2 / (np.sqrt(v2) + epsilons)
    if lazy_mode and isinstance(grad, Rows):
        kept = np.setdiff1d(np.arange(len(param)), grad.rows)
        for a, b in ((new, param), (m2, m), (v2, v)):
            a[kept] = b[kept]
    return new, m2, v2, p1 * b1, p2 * b2


POWERS = [np.array([0.9]), np.array([0.999])]


def adams(param, grad, **attrs):
    m, v = real(*param.shape, seed=2), real(*param.shape, low=0.01, high=1, seed=3)
    return case("adam", [param, grad, RATE, m, v, *POWERS], attrs, adam, dtypes="float32", tol=3e-4)


HALF = np.array([0.5])


def decayed(param, grad, factor=HALF, **how):
    """AdamW's step: the parameter is multiplied by a factor first."""

    def expected(param, grad, rate, m, v, p1, p2, *rest):
        return adam(rest[-1][0] * param, grad, rate, m, v, p1, p2)

    states = [real(*param.shape, seed=2), real(*param.shape, low=0.01, high=1, seed=3), *POWERS]
    return case("adam", [param, grad, RATE, *states, None, None, None, factor], {}, expected, tol=3e-4, **how)


test_adam = table(
    adams(real(3, 4), real(3, 4, seed=1)),
    adams(real(3, 4), real(3, 4, seed=1), beta1=0.5, beta2=0.75, epsilon=1e-3),
    adams(real(200, 300), real(200, 300, seed=1)),
    adams(real(6, 2), ROWS),
    adams(real(6, 2), ROWS, lazy_mode=True),
    adams(real(6, 2), ROWS, epsilon=0.1),
    adams(real(4096, 40), LARGE),
    adams(real(4096, 40), LARGE, lazy_mode=True),
    adams(real(6, 2), Rows([0, 3, 5], 6, real(3, 2)), lazy_mode=True),
    case(
        "adam",
        [real(6, 2), EMPTY, RATE, real(6, 2), real(6, 2), *POWERS],
        expected=lambda p, g, r, m, v, p1, p2: (p, m, v, p1, p2),
    ),
    decayed(real(3, 4), real(3, 4, seed=1)),
    decayed(real(200, 300), real(200, 300, seed=1)),
    decayed(real(6, 2), ROWS, raises=ValueError, match="Decay requires a dense Grad"),
    decayed(real(3, 4), real(3, 4, seed=1), real(2), raises=ValueError, match="'Decay' must have one element"),
    case("adam", [real(3), real(3), RATE, real(4), real(3), *POWERS], raises=ValueError, match="Moment1"),
    case("adam", [real(3), real(3), RATE, real(3), real(3), real(2), POWERS[1]], raises=ValueError, match="Beta1Pow"),
)


@pytest.mark.parametrize("lazy, first", [(False, [-0.125483006, -0.003497]), (True, [-0.073213004, 0.051274])])
def test_sparse_adam_in_place(lazy: bool, first: list[float]) -> None:
    """Values of Paddle 2.6.2: if the beta powers are updated in place, sparse gradients use those of the next step."""
    import paddle

    table = paddle.nn.Embedding(6, 2, sparse=True)
    table.weight.set_value(np.arange(12, dtype="float32").reshape(6, 2) / 8)
    adam = paddle.optimizer.Adam(0.1, beta2=0.99, epsilon=1e-2, parameters=table.parameters(), lazy_mode=lazy)
    for rows in ([0, 3], [3, 5]):
        (table(paddle.to_tensor(rows)) * paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        adam.step()
        adam.clear_grad()
    want = [first, [0.601764023, 0.721369982], [1.186769009, 1.311679006]]
    np.testing.assert_allclose(table.weight.numpy()[[0, 3, 5]], want, atol=1e-6)


def test_beta_tensors() -> None:
    names = "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow Beta1Tensor Beta2Tensor".split()
    values = [real(3), real(3, seed=1), RATE, real(3, seed=2), real(3, low=0.1, seed=3), *POWERS]
    betas = np.array([0.5]), np.array([0.25])

    def expected(*v):
        return adam(*v[:7], beta1=0.5, beta2=0.25)

    check(case("adam", dict(zip(names, [*values, *betas], strict=True)), expected=expected))


def test_in_place() -> None:
    """An output that is the variable of its input is computed in its buffer."""
    param = _core.Tensor(real(100, dtype="float32"))
    want = sgd(param.numpy(), [0.5], real(100, seed=1, dtype="float32"))
    rate, grad = (_core.Tensor(np.asarray(a, "float32")) for a in ([0.5], real(100, seed=1)))
    before = param.data_ptr()
    _core.ops.sgd(param, rate, grad, ParamOut=param)
    np.testing.assert_allclose(param.numpy(), want, rtol=1e-6)
    assert before == param.data_ptr()


@pytest.mark.parametrize("op", ["momentum", "adam"])
def test_multi_precision(op: str) -> None:
    """Half-precision parameters follow float32 master weights."""
    f4 = np.float32
    param = real(40).astype("float16")
    grad = real(40, seed=1).astype("float16")
    master, state, second = (param.astype(f4), real(40, seed=2).astype(f4), real(40, low=0.1, seed=3).astype(f4))
    if op == "momentum":
        ins = {"Param": param, "Grad": grad, "Velocity": state, "LearningRate": RATE.astype(f4), "MasterParam": master}
        want = momentum(master.astype("f8"), grad.astype("f8"), state.astype("f8"), RATE, 0.5)
        outs, attrs = "ParamOut VelocityOut MasterParamOut".split(), {"mu": 0.5}
    else:
        powers = [p.astype(f4) for p in POWERS]
        names = "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow MasterParam".split()
        ins = dict(zip(names, [param, grad, RATE.astype(f4), state, second, *powers, master], strict=True))
        want = adam(*(v.astype("f8") for v in (master, grad, RATE, state, second, *powers)))
        outs, attrs = "ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut MasterParamOut".split(), {}
    got = getattr(_core.ops, op)(**{k: _core.Tensor(v) for k, v in ins.items()}, multi_precision=True, **attrs)
    got = dict(zip(outs, (t.numpy() for t in got), strict=True))
    assert got["ParamOut"].dtype == np.float16 and got["MasterParamOut"].dtype == np.float32
    np.testing.assert_allclose(got["MasterParamOut"], want[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got["ParamOut"], got["MasterParamOut"].astype("float16"))
    np.testing.assert_allclose(got[outs[1]], want[1], rtol=1e-4, atol=1e-5)


def merged(x):
    rows = sorted(set(x.rows)) if len(set(x.rows)) < len(x.rows) else list(x.rows)
    return Rows(rows, x.height, x.dense()[rows])


def test_merge() -> None:
    for rows in (ROWS, Rows([5, 0, 3], 6, real(3, 2)), EMPTY, LARGE, Rows([9, 2, 9], 10**9, real(3, 2))):
        got = from_eager(_core.ops.merge_selected_rows(to_eager(rows)))
        small = Rows([min(r, 20) for r in rows.rows], 21, rows.values) if rows.height > 10**6 else rows
        want = merged(small)
        assert got.rows == want.rows and got.height == rows.height
        np.testing.assert_allclose(got.values, want.values, rtol=1e-12)


test_rows = table(
    case("get_tensor_from_selected_rows", [ROWS], expected=lambda x: x.values, dtypes="float32", static=False),
    case("merge_selected_rows", [ROWS], expected=merged, dtypes="float32", static=False),
    case("merge_selected_rows", [EMPTY], expected=EMPTY, static=False),
    case("merge_selected_rows", [real(3, 2)], raises=ValueError, match="SelectedRows", static=False),
)
