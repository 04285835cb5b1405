"""paddle.static.amp: Programs in which white operators compute in float16, or by FLAGS_cpu_amp in bfloat16."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import fluid

VarType = fluid.core.VarDesc.VarType
LOW = {"": VarType.FP16, "float16": VarType.FP16, "bfloat16": VarType.BF16}


@pytest.fixture(params=["", "float16", "bfloat16"])
def flag(request):
    fluid.set_flags({"FLAGS_cpu_amp": request.param})
    yield request.param
    fluid.set_flags({"FLAGS_cpu_amp": ""})


def network(static):
    image, label = static.data("image", [None, 1, 8, 8]), static.data("label", [None, 1], "int64")
    x = image * 2.0
    with static.amp.fp16_guard():
        x = static.nn.conv2d(x, 4, 3, act=None)
        x = static.nn.batch_norm(x, act="relu")
        x = static.nn.layer_norm(fluid.layers.pool2d(x, 2, "max", 2), begin_norm_axis=1)
        x = static.nn.fc(x, 3, num_flatten_dims=1)
    return paddle.mean(fluid.layers.softmax_with_cross_entropy(x, label))


def feed():
    r = np.random.default_rng(1)
    return {"image": r.normal(size=(6, 1, 8, 8)).astype("float32"), "label": r.integers(0, 3, (6, 1))}


def losses(static, optimizer, steps=8, **more):
    paddle.seed(7)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        loss = network(static)
        if more:
            optimizer = static.amp.decorate(optimizer, **more)
        optimizer.minimize(loss)
    exe = static.Executor()
    exe.run(startup)
    if more.get("use_pure_fp16"):
        optimizer.amp_init(paddle.CPUPlace())
    found = [float(exe.run(main, feed=feed(), fetch_list=[loss])[0]) for _ in range(steps)]
    return found, main


def test_networks_with_batch_norm_train(static, flag):
    """decorate raised "Input Z cannot be found in operator batch_norm" for them."""
    plain, _ = losses(static, paddle.optimizer.Momentum(0.05))
    found, main = losses(static, paddle.optimizer.Momentum(0.05), init_loss_scaling=128.0)
    block = main.global_block()
    assert found[-1] < found[0] - 0.3
    np.testing.assert_allclose(found, plain, rtol=5e-2)
    casts = [block.var(op.output("Out")[0]).dtype for op in block.ops if op.type == "cast"]
    assert LOW[flag] in casts and set(casts) <= {LOW[flag], VarType.FP32}
    norm = next(op for op in block.ops if op.type == "batch_norm")
    assert block.var(norm.input("X")[0]).dtype == block.var(norm.output("Y")[0]).dtype == LOW[flag]
    assert all(block.var(norm.input(slot)[0]).dtype == VarType.FP32 for slot in ("Scale", "Bias", "Mean", "Variance"))
    assert all(p.dtype == VarType.FP32 for p in main.all_parameters())


def test_pure_low_precision_trains(static, flag):
    optimizer = paddle.optimizer.Momentum(0.05, multi_precision=True)
    found, main = losses(static, optimizer, init_loss_scaling=64.0, use_pure_fp16=True)
    assert found[-1] < found[0] - 0.3
    assert {p.dtype for p in main.all_parameters()} == {LOW[flag], VarType.FP32}  # scales stay float32


def test_the_scale_shrinks_at_infinities(static, flag):
    paddle.seed(7)
    optimizer = static.amp.decorate(
        paddle.optimizer.SGD(0.1), init_loss_scaling=64.0, decr_every_n_nan_or_inf=1, use_dynamic_loss_scaling=True
    )
    loss = network(static)
    optimizer.minimize(loss)
    exe, main = static.Executor(), static.default_main_program()
    exe.run(static.default_startup_program())
    weight = main.all_parameters()[0].name
    before = np.array(static.global_scope().find_var(weight).get_tensor())
    bad = feed()
    bad["image"][0] = np.inf
    exe.run(main, feed=bad, fetch_list=[loss])
    after = np.array(static.global_scope().find_var(weight).get_tensor())
    np.testing.assert_array_equal(before, after)
    (scale,) = exe.run(main, feed=feed(), fetch_list=[optimizer.get_loss_scaling()])
    assert scale < 64


def test_the_index_of_an_operator(static):
    from paddle.fluid.contrib.mixed_precision import fp16_utils

    x = static.data("x", [2])
    paddle.tanh(paddle.abs(x))
    block = static.default_main_program().global_block()
    assert [fp16_utils.find_op_index(block.desc, op.desc) for op in block.ops] == [0, 1]
    assert fp16_utils.find_op_index(block.desc, fluid.core.OpDesc()) == -1
