"""Derivatives of the hidden states and cells of dynamic_lstm and dynamic_lstmp (2.0.2 drops those of cells), and the
value after the loop of a variable that a loop increments.
"""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from differences import wrong_gradient

L = fluid.layers


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    yield
    paddle.disable_static()


def wide(x):
    """`x` with 8 columns: four gates of two units."""
    return L.concat([x, L.sin(x), L.slice(x * 0.5, [1], [0], [2])], axis=1)


def constant(value=0.3):
    return fluid.ParamAttr(initializer=fluid.initializer.ConstantInitializer(value))


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("of", ["hidden", "cell", "both"])
def test_dynamic_lstm(of, peepholes):
    def make(x):
        hidden, cell = L.dynamic_lstm(
            wide(x), 8, param_attr=constant(), bias_attr=constant(0.1), use_peepholes=peepholes, dtype="float64"
        )
        parts = {"hidden": [hidden], "cell": [cell], "both": [hidden, cell]}[of]
        return L.sums([L.reduce_sum(L.square(p)) for p in parts])

    assert wrong_gradient(make, [3, 1, 2]) is None


@pytest.mark.parametrize("of", ["projection", "cell", "both"])
def test_dynamic_lstmp(of):
    def make(x):
        projection, cell = L.dynamic_lstmp(
            wide(x), 8, 3, param_attr=constant(), bias_attr=constant(0.1), use_peepholes=False, dtype="float64"
        )
        parts = {"projection": [projection], "cell": [cell], "both": [projection, cell]}[of]
        return L.sums([L.reduce_sum(L.square(p)) for p in parts])

    assert wrong_gradient(make, [3, 1, 2]) is None


def test_a_loop_variable_that_increments_is_fetched_with_its_value_after_the_loop():
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = fluid.data("x", [1], "float32")
        x.stop_gradient = False
        at, end = L.fill_constant([1], "float32", 0.0), L.fill_constant([1], "float32", 3.0)
        value = x * 1.0
        going = L.less_than(at, end)
        with L.While(going).block():
            L.assign(value * 2.0, value)
            L.increment(at)
            L.less_than(at, end, cond=going)
        (gradient,) = fluid.gradients(value, x)
    exe = paddle.static.Executor(paddle.CPUPlace())
    out = exe.run(main, feed={"x": np.ones(1, "float32")}, fetch_list=[at, value, gradient])
    assert [v.item() for v in out] == [3, 8, 8]
