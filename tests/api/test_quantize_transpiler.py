"""fluid.contrib.QuantizeTranspiler: training with rounded numbers, and Programs for inference from it."""

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle.fluid.contrib import QuantizeTranspiler


def net(train=True):
    with fluid.unique_name.guard():
        x, label = fluid.data("x", [None, 1, 8, 8]), fluid.data("label", [None, 1], "int64")
        h = fluid.layers.conv2d(x, 4, 3, act="relu")
        logits = fluid.layers.fc(h, 3, bias_attr=False)
        loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))
        if train:
            fluid.optimizer.Adam(0.01).minimize(loss)
    return logits, loss


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


@pytest.mark.parametrize("kind", ["abs_max", "range_abs_max", "moving_average_abs_max"])
def test_training_then_inference(kind):
    main, startup, test = fluid.Program(), fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        _, loss = net()
    with fluid.program_guard(test, fluid.Program()):
        logits, _ = net(train=False)
    transpiler = QuantizeTranspiler(activation_quantize_type=kind, window_size=4)
    transpiler.training_transpile(main, startup)
    transpiler.training_transpile(test, startup)
    for op in main.global_block().ops:
        if op.type in ("conv2d", "mul", "conv2d_grad", "mul_grad"):
            assert sum(name.endswith(".quantized.dequantized") for name in op.input_arg_names) == 2
    r = np.random.RandomState(0)
    feed = {"x": r.rand(12, 1, 8, 8).astype("float32"), "label": r.randint(0, 3, (12, 1))}
    exe = fluid.Executor()
    exe.run(startup)
    losses = [float(np.ravel(exe.run(main, feed=feed, fetch_list=[loss])[0])[0]) for _ in range(30)]
    assert losses[-1] < 0.8 * losses[0]
    before = exe.run(test, feed=feed, fetch_list=[logits])[0]
    transpiler.freeze_program(test, fluid.CPUPlace())
    weight = np.array(fluid.global_scope().find_var("conv2d_0.w_0").get_tensor())
    np.testing.assert_array_equal(weight, np.round(weight))
    assert np.abs(weight).max() == 127
    frozen = test.global_block().ops
    assert [op.type for op in frozen].count("fake_dequantize_max_abs") == 2
    after = exe.run(test, feed=feed, fetch_list=[logits.name + ".dequantized"])[0]
    # A moving average has moved with the run before.
    np.testing.assert_allclose(after, before, atol=0.3 if kind.startswith("moving") else 1e-2)
    transpiler.convert_to_int8(test, fluid.CPUPlace())
    small = np.array(fluid.global_scope().find_var("conv2d_0.w_0.int8").get_tensor())
    assert small.dtype == "int8" and (small == weight).all()
    assert [op.input("Filter") for op in test.global_block().ops if op.type == "conv2d"] == [["conv2d_0.w_0.int8"]]


def test_wrong_types():
    with pytest.raises(ValueError, match="Unknown weight_quantize_type: 'mean'"):
        QuantizeTranspiler(weight_quantize_type="mean")
