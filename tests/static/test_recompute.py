"""append_backward with checkpoints: the same results with less memory."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import _core, fluid, static


@pytest.fixture(autouse=True)
def programs():
    paddle.enable_static()
    with (
        static.program_guard(static.Program(), static.Program()),
        fluid.unique_name.guard(),
        static.scope_guard(static.Scope()),
    ):
        yield
    paddle.disable_static()


def deep(x, layers: int, width: int, extras: bool):
    """A chain of layers; returns (candidates for checkpoints, the output)."""
    kept = []
    for i in range(layers):
        y = static.nn.fc(x, width, activation="tanh")
        if extras:
            y = static.nn.batch_norm(y)
            y = fluid.layers.dropout(y, 0.3, dropout_implementation="upscale_in_train")
            y = paddle.reshape(paddle.reshape(y, [-1, 2, width // 2]), [-1, width])
        x = paddle.tanh(paddle.tanh(y * 1.1) + x * 0.5)
        if i % 3 == 2:
            kept.append(x)
    return kept, x


def train(points: bool, steps: int = 4, layers: int = 9, width: int = 16, rows: int = 8, extras: bool = True):
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 7
    with static.program_guard(main, startup), fluid.unique_name.guard(), static.scope_guard(static.Scope()):
        x = static.data("x", [None, width])
        kept, end = deep(x, layers, width, extras)
        loss = paddle.mean(end * end)
        opt = fluid.optimizer.Momentum(0.1, 0.9)
        if points:
            opt = fluid.optimizer.RecomputeOptimizer(opt)
            opt._set_checkpoints(kept)
        opt.minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        feed = np.random.RandomState(0).randn(rows, width).astype("float32")
        losses = [exe.run(main, feed={"x": feed}, fetch_list=[loss])[0][0]]
        _core.reset_peak_memory()
        before = _core.memory_stats()[0]
        losses += [exe.run(main, feed={"x": feed}, fetch_list=[loss])[0][0] for _ in range(steps - 1)]
        peak = _core.memory_stats()[1] - before
        state = {
            v.name: np.array(static.global_scope().find_var(v.name).get_tensor())
            for v in main.list_vars()
            if v.persistable and v.type == fluid.core.VarDesc.VarType.LOD_TENSOR
        }
    return losses, state, peak, [op.type for op in main.global_block().ops]


def test_results_are_bitwise_equal():
    plain, state, _, types = train(False)
    again, state2, _, types2 = train(True)
    assert plain == again and plain[0] != plain[-1]
    assert state.keys() == state2.keys()
    for name, value in state.items():  # including running statistics of batch_norm
        np.testing.assert_array_equal(value, state2[name], err_msg=name)
    assert types2.count("tanh") > types.count("tanh")
    # a dropout runs again with the seed of the operator before it
    assert types2.count("seed") == types.count("dropout") > types.count("seed") == 0
    assert types2.count("dropout") > types.count("dropout")


def test_memory_decreases():
    kinds = {"layers": 24, "width": 64, "rows": 4096, "extras": False, "steps": 2}
    plain = train(False, **kinds)
    again = train(True, **kinds)
    assert plain[0] == again[0]
    assert again[2] < 0.6 * plain[2], (again[2], plain[2])


def test_names_one_checkpoint_and_inputs_as_checkpoints():
    x = static.data("x", [None, 4])
    a = static.nn.fc(x, 4, activation="relu")
    b = static.nn.fc(a, 4, activation="relu")
    loss = paddle.mean(b)
    pairs = static.append_backward(loss, checkpoints=[a.name, x])
    exe = static.Executor()
    exe.run(static.default_startup_program())
    got = exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[g for _, g in pairs])
    assert len(got) == 4 and all(np.isfinite(g).all() for g in got)


def test_errors():
    x = static.data("x", [2, 4])
    y = static.nn.fc(x, 4)
    opt = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
    loss = paddle.mean(y)
    with pytest.raises(AssertionError, match="_set_checkpoints"):
        opt.minimize(loss)
    with pytest.raises(AssertionError, match="list of Variable"):
        opt._set_checkpoints([3])
    with pytest.raises(NotImplementedError):
        opt.load({})
    with pytest.raises(TypeError, match="checkpoints"):
        static.append_backward(loss, checkpoints=3)
    z = static.nn.cond(paddle.mean(y) > 0, lambda: y * 2, lambda: y * 3)
    with pytest.raises(NotImplementedError, match="sub-block"):
        static.append_backward(paddle.mean(z), checkpoints=[y])
    paddle.disable_static()
    with pytest.raises(Exception, match="In dygraph, don't support"):
        fluid.optimizer.RecomputeOptimizer(None)
