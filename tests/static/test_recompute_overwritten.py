"""append_backward with checkpoints, of Programs that overwrite variables."""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from test_overwritten_in_blocks import STATEMENTS

L = fluid.layers


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    yield
    paddle.disable_static()


def wrong_gradient(write, points):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [2, 3], "float64")
        w = paddle.static.create_parameter([2, 3], "float64", name="w")
        a = w * x
        b = L.tanh(a * w)
        write(a, b)
        c = L.exp(a * b * 0.2)
        d = L.sigmoid(c)
        e = d * c
        write(d, e)
        f = L.tanh(e) + d
        loss = L.reduce_sum(L.square(L.sin(f) * a)) + L.reduce_sum(a * b)
        forward = main.clone()
        named = {"a": a, "b": b, "c": c, "d": d, "e": e, "f": f}
        ((_, gradient),) = paddle.static.append_backward(loss, checkpoints=[named[p] for p in points])
    exe, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
    values = np.random.RandomState(0).rand(2, 2, 3) * 0.8 + 0.1

    def run(program, at, fetch):
        scope.find_var("w").get_tensor().set(at, paddle.CPUPlace())
        return exe.run(program, feed={"x": values[0]}, fetch_list=[fetch])[0]

    with paddle.static.scope_guard(scope):
        exe.run(startup)
        got, wanted = run(main, values[1], gradient), np.zeros((2, 3))
        for at in np.ndindex(2, 3):
            step = np.zeros((2, 3))
            step[at] = 1e-6
            after, before = (run(forward, values[1] + s, loss.name).item() for s in (step, -step))
            wanted[at] = (after - before) / 2e-6
    if np.allclose(got, wanted, rtol=1e-4, atol=1e-5):
        return None
    return f"gradient {got.tolist()}, differences {wanted.tolist()}"


@pytest.mark.parametrize("points", ["c", "a", "bd", "abcdef"])
def test_overwritten_variables_between_checkpoints(points):
    assert {n: wrong for n, s in STATEMENTS.items() if (wrong := wrong_gradient(s, points))} == {}
