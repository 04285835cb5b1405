"""append_backward and gradients."""

from __future__ import annotations

import numpy as np
import paddle.fluid as fluid
import pytest

layers = fluid.layers


@pytest.fixture
def x(static):
    var = static.data("x", [None, 3])
    var.stop_gradient = False
    return var


ARRAY = np.linspace(0.5, 2.0, 6, dtype="float32").reshape(2, 3)


def run(static, *fetches):
    return static.Executor().run(feed={"x": ARRAY}, fetch_list=list(fetches))


def test_gradients_add_up(static, x):
    (grad,) = static.gradients([x * x + x * 3.0 + x], x)
    np.testing.assert_allclose(run(static, grad)[0], 2 * ARRAY + 4, rtol=1e-6)
    assert [op.type for op in static.default_main_program().global_block().ops].count("sum") == 1


def test_second_and_third_order(static, x):
    y = x * x * x
    (first,) = static.gradients(y, x)
    (second,) = static.gradients(first, x)
    a, b = run(static, first, second)
    np.testing.assert_allclose(a, 3 * ARRAY**2, rtol=1e-6)
    np.testing.assert_allclose(b, 6 * ARRAY, rtol=1e-6)


def test_second_gradient_of_a_power(static, x):
    y = static.data("y", [None, 3])
    y.stop_gradient = False
    (first,) = static.gradients(x**y, x)
    by_x, by_y = static.gradients(first, [x, y])
    fetches = static.Executor().run(feed={"x": ARRAY, "y": ARRAY + 1}, fetch_list=[by_x, by_y])
    b = ARRAY + 1
    np.testing.assert_allclose(fetches[0], b * (b - 1) * ARRAY ** (b - 2), rtol=1e-5)
    np.testing.assert_allclose(fetches[1], ARRAY ** (b - 1) * (1 + b * np.log(ARRAY)), rtol=1e-5)


def test_second_gradient_of_cross_entropy(static, x):
    loss = layers.cross_entropy(x, static.data("label", [None, 1], "int64"))
    (first,) = static.gradients(loss, x)
    (second,) = static.gradients(first, x)
    feed = {"x": ARRAY, "label": np.array([[2], [0]])}
    got, twice = static.Executor().run(feed=feed, fetch_list=[first, second])
    at = np.array([[0, 0, 1], [1, 0, 0]], "float32")
    np.testing.assert_allclose(got, -at / ARRAY, rtol=1e-6)
    np.testing.assert_allclose(twice, at / ARRAY**2, rtol=1e-6)


def test_gradient_of_a_gradient_and_of_variables(static, x):
    y = x * x
    (dx,) = static.gradients(y, x)
    (dz,) = static.gradients(dx * dx + y * y, x)
    np.testing.assert_allclose(run(static, dz)[0], 8 * ARRAY + 4 * ARRAY**3, rtol=1e-6)


def test_target_gradients(static, x):
    y = x * x
    start = layers.scale(y, 0.0, 2.0)
    (grad,) = static.gradients(y, x, target_gradients=start)
    np.testing.assert_allclose(run(static, grad)[0], 4 * ARRAY, rtol=1e-6)
    with pytest.raises(ValueError):
        static.gradients([y, y], x, target_gradients=[start])


def test_targets_that_other_targets_depend_on(static, x):
    """A target's given gradient and its gradient from other targets are summed: with ones or given gradients, in the
    first call for a Program and in later ones.
    """
    g, h = layers.scale(x, 0.0, 2.0), layers.scale(x, 0.0, 3.0)
    z = x * x
    u = z * z
    w = layers.sums([z, x, z])
    calls = [
        static.gradients([w], [x, z], [g]),
        static.gradients([z, u], [x], [g, h]),
        static.gradients([u, z], [x]),
        static.gradients([z, z], [x], [g, h]),
        static.gradients([x, z], [x], [g, h]),
        static.gradients([z], [z, x], [g]),
        static.gradients([w], [z, x], [h]),
    ]
    wants = [
        [2 + 8 * ARRAY, 4],
        [(2 + 6 * ARRAY**2) * 2 * ARRAY],
        [(1 + 2 * ARRAY**2) * 2 * ARRAY],
        [10 * ARRAY],
        [2 + 6 * ARRAY],
        [2, 4 * ARRAY],
        [6, 3 + 12 * ARRAY],
    ]
    for grads, want in zip(calls, wants, strict=True):
        for got, expected in zip(run(static, *grads), want, strict=True):
            np.testing.assert_allclose(got, np.broadcast_to(expected, ARRAY.shape), rtol=1e-5)


def test_one_of_the_inputs_of_a_sum(static, x):
    """Operators whose gradient operators read only gradients are kept."""
    y = static.data("y", [None, 3])
    y.stop_gradient = False
    total = layers.sums([x, y, x])
    grads = static.gradients(total, [x, y], target_gradients=layers.scale(x, 0.0, 2.0))
    got = static.Executor().run(feed={"x": ARRAY, "y": ARRAY}, fetch_list=grads)
    assert [g[0, 0] for g in got] == [4, 2]


def test_no_grad_set_and_stop_gradient(static, x):
    middle = x * 2.0
    (grad,) = static.gradients(middle * x, x, no_grad_set={middle})
    np.testing.assert_allclose(run(static, grad)[0], 2 * ARRAY, rtol=1e-6)
    stopped = x * 2.0
    stopped.stop_gradient = True
    (grad,) = static.gradients(stopped * x, x)
    np.testing.assert_allclose(run(static, grad)[0], 2 * ARRAY, rtol=1e-6)
    with pytest.raises(TypeError):
        static.gradients(middle, x, no_grad_set="x")


def test_nothing_to_differentiate(static, x):
    other = static.data("other", [3])
    assert static.gradients(x * 2.0, other) == []
    assert static.gradients(x * 2.0, [other, x])[0] is None


def test_append_backward_returns_parameters(static, x):
    h = layers.fc(x, 2)
    loss = layers.mean(h)
    seen = []
    pairs = static.append_backward(
        loss, callbacks=[lambda block, context: seen.append(context["__current_op_desc__"].type())]
    )
    assert [(p.name, g.name) for p, g in pairs] == [("fc_0.w_0", "fc_0.w_0@GRAD"), ("fc_0.b_0", "fc_0.b_0@GRAD")]
    assert "mean_grad" in seen and "mul_grad" in seen
    ops = static.default_main_program().global_block().ops
    assert next(op for op in ops if op.type == "mean").attr("op_role") == 256
    assert next(op for op in ops if op.type == "mul_grad").attr("op_role_var") == ["fc_0.w_0", "fc_0.w_0@GRAD"]
    static.Executor().run(static.default_startup_program())
    (grad,) = run(static, pairs[0][1])
    np.testing.assert_allclose(grad, np.repeat(ARRAY.sum(0)[:, None], 2, 1) / 4, rtol=1e-5)


def test_parameter_list(static, x):
    loss = layers.mean(layers.fc(x, 2))
    assert [p.name for p, _ in static.append_backward(loss, parameter_list=["fc_0.b_0"])] == ["fc_0.b_0"]
    with pytest.raises(TypeError):
        static.append_backward(loss, parameter_list="fc_0.b_0")


def test_wrong_arguments(static, x):
    with pytest.raises(TypeError):
        static.append_backward("loss")
    with pytest.raises(ValueError):
        static.append_backward(x)
    with pytest.raises(TypeError):
        static.append_backward(layers.mean(x), checkpoints=[3])


def test_penalty_of_a_gradient_without_parameters(static):
    """In a gradient penalty the first gradients do not depend on the filter, so the second gradients do not get it."""
    x = static.data("x", [None, 1, 3, 3])
    x.stop_gradient = False
    attr = fluid.ParamAttr(name="filter", initializer=fluid.initializer.Constant(0.5))
    y = layers.conv2d(x, 2, 2, param_attr=attr, bias_attr=False)
    y = layers.square(y) * y
    filters = static.default_main_program().global_block().var("filter")
    (dx,) = static.gradients(y, x, no_grad_set={filters})
    loss = layers.reduce_sum(dx * dx)
    ((_, grad),) = fluid.backward.append_backward(loss, parameter_list=[filters])
    exe = static.Executor()
    exe.run(static.default_startup_program())
    feed = {"x": np.linspace(-1, 1, 18, dtype="float32").reshape(2, 1, 3, 3)}
    (found,) = exe.run(feed=feed, fetch_list=[grad])
    place, numeric = fluid.global_scope().find_var("filter").get_tensor(), np.zeros_like(found)
    values = np.array(place)
    for at in np.ndindex(*values.shape):
        ends = []
        for step in (0.01, -0.01):
            moved = values.copy()
            moved[at] += step
            place.set(moved, fluid.CPUPlace())
            ends.append(exe.run(feed=feed, fetch_list=[loss])[0].item())
        numeric[at] = (ends[0] - ends[1]) / 0.02
    np.testing.assert_allclose(found, numeric, rtol=2e-2, atol=1e-3)


def test_no_second_gradient_is_an_error(static, x):
    """A missing second gradient is an error, not zero. (2.0.2 finds no gradient maker for the operator.)"""
    y = layers.softsign(x)
    (dx,) = static.gradients(y, x)
    for loss in (layers.reduce_sum(dx * dx), dx, layers.reduce_sum(dx) + layers.reduce_sum(y)):
        with pytest.raises(RuntimeError, match="operator softsign_grad has no gradient operator"):
            static.gradients(loss, x)
    # inputs that do not depend on that gradient have gradients
    (again,) = static.gradients(layers.reduce_sum(y * 2.0), x)
    np.testing.assert_allclose(run(static, again)[0], 2 / (1 + ARRAY) ** 2, rtol=1e-5)


def test_a_loop_variable_that_is_not_read_after_the_loop(static, x):
    i = static.data("i", [1])
    i.stop_gradient = False
    _, out = layers.while_loop(lambda i, y: i < 3.0, lambda i, y: [i + 1.0, y * i], [i, layers.assign(x)])
    grads = static.gradients(layers.reduce_sum(out), [i, x])
    feed = {"x": ARRAY, "i": np.float32([1])}
    di, dx = static.Executor().run(feed=feed, fetch_list=grads)
    np.testing.assert_allclose(di, [3 * ARRAY.sum()], rtol=1e-6)
    np.testing.assert_allclose(dx, np.full((2, 3), 2), rtol=1e-6)
