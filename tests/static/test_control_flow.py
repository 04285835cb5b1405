"""While, cond, case, arrays, and their gradients."""

from __future__ import annotations

import numpy as np
import paddle.fluid as fluid
import pytest

layers = fluid.layers


@pytest.fixture
def run(static):
    exe = static.Executor()
    return lambda fetches, **feed: exe.run(
        feed={k: np.array(v, "float32") for k, v in feed.items()}, fetch_list=fetches
    )


def differentiable(static, name, shape=(1,)):
    var = static.data(name, list(shape))
    var.stop_gradient = False
    return var


def test_while_sums_an_array(static, run):
    inputs = [differentiable(static, f"d{i}", (4,)) for i in range(3)]
    i = layers.zeros([1], "int64")
    memory = layers.array_write(layers.zeros([4], "float32"), i)
    data = layers.array_write(inputs[0], i)
    for var in inputs[1:]:
        i = layers.increment(i)
        layers.array_write(var, i, array=data)
    i, n = layers.zeros([1], "int64"), layers.fill_constant([1], "int64", 3)
    going = layers.less_than(i, n)
    loop = layers.While(going)
    with loop.block():
        total = layers.sums([layers.array_read(data, i), layers.array_read(memory, i)])
        layers.increment(i)
        layers.array_write(total, i, array=memory)
        layers.less_than(i, n, cond=going)
    total = layers.array_read(memory, i)
    length = layers.array_length(memory)
    grads = static.gradients(layers.mean(total * total), inputs)
    feed = {f"d{k}": np.arange(4) + k for k in range(3)}
    out, count, *got = run([total, length, *grads], **feed)
    want = sum(feed.values())
    np.testing.assert_allclose(out, want)
    assert int(np.ravel(count)[0]) == 4
    for grad in got:
        np.testing.assert_allclose(grad, want * 2 / 4, rtol=1e-6)


def test_while_loop(static, run):
    i, x = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "float32", 1.0)
    i, x = static.nn.while_loop(lambda i, x: i < 10, lambda i, x: [i + 1, x * 2.0], [i, x])
    assert [v.item() for v in run([i, x])] == [10, 1024.0]
    with pytest.raises(ValueError):
        static.nn.while_loop(lambda i: i < 10, lambda i: [i, i], [i])
    with pytest.raises(TypeError):
        static.nn.while_loop(1, lambda i: i, [i])
    with pytest.raises(ValueError):
        static.nn.while_loop(lambda: i < 10, lambda: [], [])


def nested(static, x, a):
    def body(i, a):
        j, a = static.nn.while_loop(lambda j, a: j < 2, lambda j, a: [j + 1, a * x], [counter(), a])
        return [i + 1, a + x]

    return static.nn.while_loop(lambda i, a: i < 2, body, [counter(), a])[1]


def counter():
    return layers.fill_constant([1], "int64", 0)


def three(static, a, step):
    return static.nn.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, step(a)], [counter(), a])[1]


def in_turn(static, x):
    loop = static.nn.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, b, a * b], [counter(), x * 1.0, x * 2.0])
    return loop[1] + loop[2]


# name: (the result of a loop on x, its derivative); the loop variable is overwritten, so its gradient passes every step
LOOPS = {
    "times_outer": (lambda st, x: three(st, x * 1.0, lambda a: a * x), lambda x: 4 * x**3),
    "square": (lambda st, x: three(st, x * 1.0, lambda a: a * a), lambda x: 8 * x**7),
    "linear": (lambda st, x: three(st, x * 1.0, lambda a: a + x * 2.0), lambda x: 7 + 0 * x),
    "the_variable_itself": (lambda st, x: three(st, x, lambda a: a * a), lambda x: 8 * x**7),
    "used_after": (lambda st, x: three(st, x * 1.0, lambda a: a * 2.0) * x, lambda x: 16 * x),
    "two_in_turn": (in_turn, lambda x: 12 * x**2 + 40 * x**4),
    "nested": (lambda st, x: nested(st, x, x * 1.0), lambda x: 5 * x**4 + 3 * x**2 + 1),
    "cond_inside": (
        lambda st, x: three(st, x * 1.0, lambda a: st.nn.cond(layers.mean(a) < 1.4, lambda: a * x, lambda: a + x)),
        lambda x: 2 * x + 2,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_gradient_of_loop_variables(static, run, name):
    x = differentiable(static, "x", (2,))
    make, derivative = LOOPS[name]
    (grad,) = static.gradients(layers.reduce_sum(make(static, x)), x)
    at = np.array([0.75, 1.5], "float32")
    np.testing.assert_allclose(run([grad], x=at)[0], derivative(at), rtol=1e-5)


@pytest.mark.parametrize("value, out, grad", [(2.0, 4.0, 4.0), (7.0, 21.0, 3.0)])
def test_cond(static, run, value, out, grad):
    a = differentiable(static, "a")
    y, z = static.nn.cond(a < 5.0, lambda: (a * a, a + 1.0), lambda: (a * 3.0, a - 1.0))
    (g,) = static.gradients(y, a)
    got = [v.item() for v in run([y, z, g], a=[value])]
    assert got == [out, value + 1 if value < 5 else value - 1, grad]


def test_gradient_of_cond_in_a_second_pass(static, run):
    a = differentiable(static, "a")
    (first,) = static.gradients(a * a, a)
    (second,) = static.gradients(static.nn.cond(a < 1.0, lambda: a * 10.0, lambda: a * 20.0), a)
    assert [v.item() for v in run([first, second], a=[0.5])] == [1.0, 10.0]
    assert [v.item() for v in run([first, second], a=[3.0])] == [6.0, 20.0]


def test_cond_without_results_assigns(static, run):
    a = static.data("a", [1])
    total = layers.fill_constant([1], "float32", 1.0)
    assert static.nn.cond(a < 5.0, lambda: layers.assign(a * 2.0, total) and None, None) is None
    assert run([total], a=[3.0])[0].item() == 6.0
    assert run([total], a=[8.0])[0].item() == 1.0


def test_cond_structures_must_agree(static):
    a = static.data("a", [1])
    for true_fn, false_fn in (
        (lambda: a + 1.0, None),
        (lambda: a + 1.0, lambda: (a + 1.0, a)),
        (None, lambda: a + 1.0),
    ):
        with pytest.raises(ValueError):
            static.nn.cond(a < 1.0, true_fn, false_fn)
    for args in ((a, lambda: a), (a < 1.0, 1)):
        with pytest.raises(TypeError):
            static.nn.cond(*args)


@pytest.mark.parametrize("value, out, grad", [(0.5, 5.0, 10.0), (2.0, 40.0, 20.0), (7.0, 210.0, 30.0)])
def test_case(static, run, value, out, grad):
    a = differentiable(static, "a")
    y = static.nn.case([(a < 1.0, lambda: a * 10.0), (a < 3.0, lambda: a * 20.0)], default=lambda: a * 30.0)
    (g,) = static.gradients(y, a)
    assert [v.item() for v in run([y, g], a=[value])] == [out, grad]


@pytest.mark.parametrize("value, out", [(1.0, 101.0), (2.0, 202.0), (9.0, 9.5)])
def test_switch_case(static, run, value, out):
    a = static.data("a", [1])
    index = layers.cast(a, "int32")
    y = static.nn.switch_case(index, {1: lambda: a + 100.0, 2: lambda: a + 200.0}, default=lambda: a + 0.5)
    assert run([y], a=[value])[0].item() == out
    with pytest.raises(ValueError):
        static.nn.switch_case(index, [(1, lambda: a), (1, lambda: a)])
    with pytest.raises(TypeError):
        static.nn.switch_case(a, {1: lambda: a})


def test_switch(static, run):
    a = static.data("a", [1])
    rate = layers.fill_constant([1], "float32", 0.0)
    with layers.Switch() as switch:
        with switch.case(a < 1.0):
            layers.assign(a * 10.0, rate)
        with switch.case(a < 2.0):
            layers.assign(a * 20.0, rate)
        with switch.default():
            layers.assign(a * 30.0, rate)
    assert [run([rate], a=[v])[0].item() for v in (0.5, 1.5, 3.0)] == [5.0, 30.0, 90.0]


def test_wrong_uses(static):
    a = static.data("a", [1])
    with pytest.raises(TypeError):
        layers.While(a)
    with pytest.raises(TypeError):
        layers.While(static.data("many", [3]) < 1.0)
    with pytest.raises(TypeError):
        layers.array_read(a, layers.zeros([1], "int64"))
    with pytest.raises(TypeError):
        layers.array_write(a, a)
    with pytest.raises(TypeError):
        layers.array_length(a)


def test_dygraph_runs_python(static):
    from paddle._basics import mode
    from paddle._basics.tracer import Tracer

    with mode._dygraph_guard(Tracer()):
        array = layers.create_array("float32")
        assert array == [] and layers.array_length(array) == 0
