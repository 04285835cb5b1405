"""The mode of a process that does not choose one: scripts run as child processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# A script of 1.x: static mode without enable_static().
FIT_A_LINE = """
    import numpy as np
    import paddle, paddle.fluid as fluid
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    y = fluid.data(name="y", shape=[None, 1], dtype="float32")
    predicted = fluid.layers.fc(input=x, size=1, act=None)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=predicted, label=y))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    assert [v.name for v in fluid.default_main_program().all_parameters()] == ["fc_0.w_0", "fc_0.b_0"]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    draw = np.random.RandomState(0)
    w = draw.rand(4, 1).astype("float32")
    for step in range(60):
        data = draw.rand(32, 4).astype("float32")
        got = exe.run(feed={"x": data, "y": data @ w + 1}, fetch_list=[loss])
        if step == 0:
            first = float(got[0])
    print("%d steps, %.6f -> %f" % (step + 1, got[0], float(got[0])))
    assert float(got[0]) < first / 10 and not fluid.in_dygraph_mode()
"""
# The executor first, separate Programs, prefixed names.
GUARDED = """
    import paddle.fluid as fluid
    exe = fluid.Executor(fluid.CPUPlace())
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard("mine_"), fluid.program_guard(main, startup):
        out = fluid.layers.fc(fluid.layers.data("x", [3]), 2)
        assert out.name == "mine_mine_fc_0.tmp_1", out.name
    exe.run(startup)
"""
CREATED_FIRST = """
    import paddle.fluid as fluid
    i = fluid.layers.fill_constant([1], "int64", 0)
    n = fluid.layers.fill_constant([1], "int64", 10)
    cond = fluid.layers.less_than(i, n)
    with fluid.layers.While(cond).block():
        fluid.layers.increment(i)
        fluid.layers.less_than(i, n, cond=cond)
    assert int(fluid.Executor(fluid.CPUPlace()).run(fetch_list=[i])[0]) == 10
"""
BLOCK_FIRST = """
    import numpy as np
    import paddle.fluid as fluid
    block = fluid.default_main_program().current_block()
    x, y, z = (block.create_var(name=name, shape=[2, 2], dtype="float32") for name in "xyz")
    block.append_op(type="mul", inputs={"X": x, "Y": y}, outputs={"Out": z})
    ones = np.ones([2, 2], "float32")
    assert fluid.Executor(fluid.CPUPlace()).run(feed={"x": ones, "y": ones}, fetch_list=[z])[0][0, 0] == 2
"""
OPTIMIZER_FIRST = """
    import paddle.fluid as fluid
    rate = fluid.layers.exponential_decay(0.1, 10, 0.9)
    assert isinstance(rate, fluid.framework.Variable) and not fluid.in_dygraph_mode()
"""
FLEET = """
    import paddle
    x = paddle.static.data(name="x", shape=[None, 32], dtype="float32")
    y = paddle.static.nn.fc(x, 2)
    assert not paddle.in_dynamic_mode() and y.name == "fc_0.tmp_1"
"""
# A guard only affects its block: the mode is undecided before and after it.
GUARD_BEFORE = """
    import numpy as np
    import paddle.fluid as fluid
    with fluid.dygraph.guard():
        layer = fluid.dygraph.Linear(2, 2)
        assert layer(fluid.dygraph.to_variable(np.ones([1, 2], "float32"))).numpy().shape == (1, 2)
        try:
            fluid.data("x", [None, 3])
        except AssertionError:
            pass
        else:
            raise SystemExit("data within a guard")
    x = fluid.data("x", [None, 3])
    assert fluid.layers.fc(x, 2).name == "fc_0.tmp_1"
"""
DYGRAPH = """
    import paddle
    assert paddle.in_dynamic_mode()
    net = paddle.nn.Linear(3, 1)
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    loss = net(paddle.ones([2, 3])).mean()
    loss.backward()
    optimizer.step()
    print("%f" % loss.numpy(), float(loss.numpy()))
    assert paddle.in_dynamic_mode()
    try:
        paddle.static.data("x", [None, 3])
    except AssertionError as error:
        assert "enable_static" in str(error)
    else:
        raise SystemExit("a Tensor had chosen dygraph mode")
"""
SAID = """
    import paddle
    paddle.disable_static()
    try:
        paddle.static.data("x", [None, 3])
    except AssertionError:
        paddle.enable_static()
    x = paddle.static.data("x", [None, 3])
    paddle.disable_static()
    assert paddle.in_dynamic_mode()
"""


@pytest.mark.parametrize(
    "script", [FIT_A_LINE, GUARDED, CREATED_FIRST, BLOCK_FIRST, OPTIMIZER_FIRST, FLEET, GUARD_BEFORE, DYGRAPH, SAID]
)
def test_script(script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
