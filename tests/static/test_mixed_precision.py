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


def _branch(x):
    layers = fluid.layers
    return layers.cond(layers.reduce_sum(x) > 0, lambda: layers.fc(x, 3), lambda: layers.fc(x * 0.5, 3))


def _while_loop(x):
    layers, (i, n) = fluid.layers, (fluid.layers.fill_constant([1], "int64", value) for value in (0, 3))
    names = {"param_attr": "w", "bias_attr": "b"}
    _, last = layers.while_loop(lambda i, x: i < n, lambda i, x: [i + 1, layers.fc(x, 6, act="tanh", **names)], [i, x])
    return layers.fc(last, 3) + layers.fc(x, 3)


def _nested(x):
    layers, (i, n) = fluid.layers, (fluid.layers.fill_constant([1], "int64", value) for value in (0, 3))

    def body(i, x):
        return [i + 1, layers.cond(layers.reduce_sum(x) > 0, lambda: layers.fc(x, 6, **names), lambda: x * 0.9)]

    names = {"param_attr": "w", "bias_attr": "b"}
    return layers.fc(layers.while_loop(lambda i, x: i < n, body, [i, x])[1], 3)


def _array(x):
    layers, (i, n) = fluid.layers, (fluid.layers.fill_constant([1], "int64", value) for value in (0, 3))
    array = layers.create_array("float32")
    layers.array_write(layers.fc(x, 6), i, array)

    def body(i, array):
        layers.array_write(layers.fc(layers.array_read(array, i), 6, param_attr="w", bias_attr="b") + x, i + 1, array)
        return [i + 1, array]

    return layers.fc(layers.array_read(layers.while_loop(lambda i, a: i < n, body, [i, array])[1], n), 3)


def _static_rnn(x):
    layers, rnn = fluid.layers, fluid.layers.StaticRNN()
    steps = layers.stack([x, x * 2])
    with rnn.step():
        step, memory = rnn.step_input(steps), rnn.memory(init=x)
        state = layers.fc([step, memory], 6, act="tanh") + x
        rnn.update_memory(memory, state)
        rnn.step_output(state)
    return layers.fc(layers.reduce_mean(rnn(), dim=0), 3)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("body", [_branch, _while_loop, _nested, _array, _static_rnn])
def test_branches_and_loops_train(static, flag, body, pure):
    """Operators of a block read the float16 variable, whose float32 cast had the gradient: nothing was trained."""

    def run(amp):
        main, startup = static.Program(), static.Program()
        main.random_seed = startup.random_seed = 3
        with fluid.unique_name.guard(), static.program_guard(main, startup):
            image, label = static.data("image", [None, 1, 8, 8]), static.data("label", [None, 1], "int64")
            x = image * 2.0
            with static.amp.fp16_guard():
                x = body(fluid.layers.fc(x, 6))
            loss = paddle.mean(fluid.layers.softmax_with_cross_entropy(x, label))
            optimizer = paddle.optimizer.SGD(0.05)
            if amp:
                optimizer = static.amp.decorate(optimizer, init_loss_scaling=8.0, use_pure_fp16=pure)
            optimizer.minimize(loss)
        exe = static.Executor()
        exe.run(startup)
        if amp and pure:
            optimizer.amp_init(paddle.CPUPlace())
        return [float(exe.run(main, feed=feed(), fetch_list=[loss])[0]) for _ in range(5)]

    plain = run(False)
    assert plain[-1] < plain[0] - 0.05
    np.testing.assert_allclose(run(True), plain, rtol=5e-2)
