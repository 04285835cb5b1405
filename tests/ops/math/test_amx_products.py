"""Large matrix products on the AMX unit, and the flag that disables it. Without the unit both paths are the same."""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest


@pytest.fixture
def flag():
    yield lambda on: fluid.set_flags({"FLAGS_amx_products": on})
    fluid.set_flags({"FLAGS_amx_products": True})


def values(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape, "float32")


def has_unit():
    try:
        with open("/proc/cpuinfo") as f:
            return "amx_bf16" in f.read()
    except OSError:
        return False


def results():
    x, w = (paddle.to_tensor(values(*shape), stop_gradient=False) for shape in ((256, 300), (300, 512)))
    y = paddle.matmul(x, w)
    return [v.numpy() for v in (y, *paddle.grad([(y * y).sum()], [x, w]))]


def test_both_paths_are_correct(flag):
    assert fluid.get_flags("FLAGS_amx_products") == {"FLAGS_amx_products": True}
    unit = results()
    flag(False)
    for a, b in zip(unit, results(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=3e-6 * np.abs(b).max())
        assert has_unit() or np.array_equal(a, b)


def test_a_program_gives_the_same_bits():
    x, w = values(256, 300), values(300, 512)
    eager = paddle.matmul(paddle.to_tensor(x), paddle.to_tensor(w)).numpy()
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            y = paddle.matmul(*(paddle.static.data(n, v.shape, "float32") for n, v in (("x", x), ("w", w))))
            (static,) = paddle.static.Executor().run(feed={"x": x, "w": w}, fetch_list=[y])
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(eager, static)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38, 1e-40])
def test_values_outside_of_the_split_range(bad):
    x, w = values(256, 300), values(300, 512)
    x[70, 5] = bad
    if bad == 1e-40:
        x[70], w[:, 9] = bad, 1.0
    y = paddle.matmul(paddle.to_tensor(x), paddle.to_tensor(w)).numpy()
    with np.errstate(all="ignore"):
        want = (x.astype("float64") @ w.astype("float64")).astype("float32")
    np.testing.assert_allclose(y[70], want[70], rtol=1e-4, atol=1e-43 if bad == 1e-40 else 1e-4)
    rest = np.arange(256) != 70
    np.testing.assert_allclose(y[rest], want[rest], rtol=1e-4, atol=1e-4)
