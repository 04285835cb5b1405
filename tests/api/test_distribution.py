"""paddle.distribution in both modes, compared with formulas and SciPy's densities."""

import numpy as np
import paddle
import pytest
from paddle.distribution import Categorical, Distribution, Normal, Uniform

LOW, HIGH = np.float32([[-1.0, 0.5], [2.0, 3.0]]), np.float32([[1.0, 2.5], [2.5, 9.0]])
LOC, SCALE = np.float32([0.5, -2.0, 3.0]), np.float32([1.0, 0.3, 2.0])
X = np.float32([0.1, -2.2, 4.0])


def run(static, build):
    """The results of `build`, which returns a list of Tensors."""
    if not static:
        return [t.numpy() for t in build()]
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            fetches = build()
        with paddle.static.scope_guard(paddle.static.Scope()):
            return paddle.static.Executor().run(main, fetch_list=fetches)
    finally:
        paddle.disable_static()


both = pytest.mark.parametrize("static", [False, True])


def given(kind, array):
    return {"array": array, "list": array.tolist(), "tensor": None}[kind] if kind != "tensor" else paddle.assign(array)


@both
@pytest.mark.parametrize("kind", ["array", "list", "tensor"])
def test_uniform(static, kind):
    value = np.float32([[0.0, 3.0], [2.25, 3.0]])

    def build():
        u = Uniform(given(kind, LOW), given(kind, HIGH))
        v = paddle.assign(value)
        return [u.probs(v), u.log_prob(v), u.entropy(), u.sample([500])]

    probs, logs, entropy, drawn = run(static, build)
    expected = ((value > LOW) & (value < HIGH)) / (HIGH - LOW)
    np.testing.assert_allclose(probs, expected, rtol=1e-6)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(logs, np.log(expected), rtol=1e-5)
    np.testing.assert_allclose(entropy, np.log(HIGH - LOW), rtol=1e-6)
    assert drawn.shape == (500, 2, 2) and (drawn >= LOW).all() and (drawn <= HIGH).all()
    np.testing.assert_allclose(drawn.mean(0), (LOW + HIGH) / 2, atol=0.15 * (HIGH - LOW).max())


@both
@pytest.mark.parametrize("kind", ["array", "list", "tensor"])
def test_normal(static, kind):
    def build():
        n, m = Normal(given(kind, LOC), given(kind, SCALE)), Normal(given(kind, SCALE), given(kind, SCALE * 2))
        v = paddle.assign(X)
        return [n.probs(v), n.log_prob(v), n.entropy(), n.kl_divergence(m), n.sample([2000])]

    probs, logs, entropy, kl, drawn = run(static, build)
    density = np.exp(-((X - LOC) ** 2) / (2 * SCALE**2)) / (SCALE * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(probs, density, rtol=1e-5)
    np.testing.assert_allclose(logs, np.log(density), rtol=1e-5)
    np.testing.assert_allclose(entropy, 0.5 * np.log(2 * np.pi * np.e * SCALE**2), rtol=1e-6)
    np.testing.assert_allclose(kl, np.log(2) + (SCALE**2 + (LOC - SCALE) ** 2) / (8 * SCALE**2) - 0.5, rtol=1e-5)
    assert drawn.shape == (2000, 3)
    np.testing.assert_allclose(drawn.mean(0), LOC, atol=0.2)
    np.testing.assert_allclose(drawn.std(0), SCALE, rtol=0.1)


@both
def test_numbers(static):
    def build():
        return [Normal(0, 1.5).sample([2, 3]), Uniform(1, 2).sample([4], seed=3), Normal(0, 1).entropy()]

    assert [s.shape for s in run(static, build)] == [(2, 3), (4,), (1,)]


def test_seeds_and_gradients():
    paddle.seed(5)
    first = Normal(0.0, 1.0).sample([5]).numpy()
    paddle.seed(5)
    np.testing.assert_array_equal(Normal(0.0, 1.0).sample([5]).numpy(), first)
    same = [Uniform(0.0, 1.0).sample([5], seed=9).numpy() for _ in range(2)]
    np.testing.assert_array_equal(*same)
    loc = paddle.to_tensor(LOC, stop_gradient=False)
    Normal(loc, paddle.to_tensor(SCALE)).log_prob(paddle.to_tensor(X)).sum().backward()
    np.testing.assert_allclose(loc.grad, (X - LOC) / SCALE**2, rtol=1e-5)


def test_float64():
    normal = Normal(LOC.astype("float64"), SCALE.astype("float64"))
    assert normal.sample([2]).dtype == paddle.zeros([1], "float64").dtype
    with pytest.warns(UserWarning, match="type of the distribution"):
        assert normal.probs(paddle.to_tensor(X)).dtype == normal.loc.dtype


def test_unknown_batch():
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            low = paddle.static.data("low", [-1, 2], "float32")
            high = paddle.static.data("high", [-1, 2], "float32")
            fetches = [Uniform(low, high).sample([3]), Normal(low, high).sample([3])]
        feed = {"low": LOW, "high": HIGH}
        found = paddle.static.Executor().run(main, feed=feed, fetch_list=fetches)
    finally:
        paddle.disable_static()
    assert [f.shape for f in found] == [(3, 2, 2), (3, 2, 2)]
    assert (found[0] >= LOW).all() and (found[0] <= HIGH).all()


LOGITS = np.float32([[1.0, 2.0, 5.0], [4.0, 4.0, 2.0]])


@both
def test_categorical(static):
    def build():
        a, b = Categorical(paddle.assign(LOGITS)), Categorical(LOGITS[:, ::-1].copy())
        v = paddle.assign(np.array([[0, 2], [1, 1]], "int64"))
        return [
            a.probs(v),
            a.log_prob(v),
            a.probs(paddle.assign(np.array([2, 0], "int64"))),
            a.entropy(),
            a.kl_divergence(b),
            Categorical(LOGITS[0].tolist()).probs(v),
        ]

    probs, logs, every, entropy, kl, single = run(static, build)
    weights = LOGITS / LOGITS.sum(1, keepdims=True)
    expected = np.take_along_axis(weights, np.array([[0, 2], [1, 1]]), 1)
    np.testing.assert_allclose(probs, expected, rtol=1e-6)
    np.testing.assert_allclose(logs, np.log(expected), rtol=1e-5)
    np.testing.assert_allclose(every, weights[:, [2, 0]], rtol=1e-6)
    np.testing.assert_allclose(single, weights[0][[[0, 2], [1, 1]]], rtol=1e-6)
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    np.testing.assert_allclose(entropy, -(p * np.log(p)).sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(kl, (p * np.log(p / p[:, ::-1])).sum(1, keepdims=True), rtol=1e-4)


@pytest.mark.skipif(not hasattr(paddle, "multinomial"), reason="the operator multinomial is missing")
def test_categorical_draws():
    paddle.seed(1)
    drawn = Categorical(paddle.to_tensor(LOGITS[0])).sample([40, 50]).numpy()
    assert drawn.shape == (40, 50)
    np.testing.assert_allclose(np.bincount(drawn.ravel()) / 2000, LOGITS[0] / 8, atol=0.05)
    assert Categorical(paddle.to_tensor(LOGITS)).sample([7]).shape == [7, 2]


def test_errors():
    with pytest.raises(ValueError, match="all arguments should be Tensor"):
        Uniform(paddle.to_tensor([1.0]), 2.0)
    with pytest.raises(TypeError, match="str"):
        Normal("1", 2.0)
    with pytest.raises(ValueError, match="must match shape of logits"):
        Categorical(LOGITS).probs(paddle.to_tensor(np.zeros([3, 1], "int64")))
    for call in ("sample", "entropy"):
        with pytest.raises(NotImplementedError, match=call):
            getattr(Distribution(), call)()
    paddle.enable_static()
    try:
        with pytest.raises(TypeError, match="'shape' in sample"):
            Uniform(1.0, 2.0).sample(3)
        with pytest.raises(TypeError, match="'logits' in Categorical"):
            Categorical("logits")
    finally:
        paddle.disable_static()
