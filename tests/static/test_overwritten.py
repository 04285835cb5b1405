"""Gradients of Programs that overwrite variables."""

import os

import numpy as np
import overwriting
import paddle
import pytest


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    yield
    paddle.disable_static()


def wrong(seeds) -> dict[int, str]:
    return {seed: found for seed in seeds if (found := overwriting.check(seed))}


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_gradients_of_random_programs_that_overwrite(first):
    assert wrong(range(first, first + 10)) == {}


#: Programs of the slow test
COUNT = int(os.environ.get("OAR_PROGRAMS", "500"))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, COUNT, 40))
def test_gradients_of_500_random_programs_that_overwrite(first):
    assert wrong(range(first, min(first + 40, COUNT))) == {}


def test_a_transposed_variable_that_is_reshaped_in_place():
    """Gradients have the shapes of their values, not that of the variable after the last reshape."""
    fluid = paddle.fluid
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [None, 4, 6])
        hidden = fluid.layers.fc(x, 8, num_flatten_dims=2, param_attr=fluid.initializer.Constant(0.1))
        heads = fluid.layers.transpose(fluid.layers.reshape(hidden, [0, 0, 2, 4], inplace=True), [0, 2, 1, 3])
        back = fluid.layers.transpose(heads, [0, 2, 1, 3])
        merged = fluid.layers.reshape(back, [0, 0, 8], inplace=True)
        loss = fluid.layers.mean(fluid.layers.square(merged))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        feed = {"x": np.ones((2, 4, 6), "float32")}
        losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(3)]
    np.testing.assert_allclose(losses, [0.36, 0.245025, 0.16677016], rtol=1e-6)  # PaddlePaddle 1.8.5
