"""Adagrad to Lamb: values and names of Paddle 2.6.2; model averages, lookahead and gradient merge."""

import numpy as np
import paddle
import pytest
from paddle import fluid, nn

O = paddle.optimizer
WEIGHT = np.random.RandomState(1).randn(4, 3).astype("float32")
BIAS = np.array([0.1, -0.2, 0.3], "float32")


def batch(i):
    return np.random.RandomState(i).randn(5, 4).astype("float32")


def look_ahead(p):
    return paddle.incubate.LookAhead(O.SGD(0.1, parameters=p), alpha=0.3, k=2)


# The first four weights and the first bias after five steps, and the accumulators, recorded from Paddle 2.6.2.
RECORDED = {
    "adagrad": (
        lambda p: O.Adagrad(0.1, parameters=p, initial_accumulator_value=0.1, weight_decay=0.01),
        [1.45169, -0.40244, -0.46869, -0.835675, -0.044962],
        "moment",
    ),
    "adamax": (
        lambda p: O.Adamax(0.1, parameters=p, grad_clip=nn.ClipGradByGlobalNorm(0.5)),
        [1.345618, -0.264713, -0.380831, -0.737701, -0.157604],
        "beta1_pow_acc inf_norm moment",
    ),
    "rmsprop": (
        lambda p: O.RMSProp(0.1, momentum=0.5, parameters=p, weight_decay=paddle.regularizer.L1Decay(0.01)),
        [0.221811, 0.642657, -0.088543, 0.241803, -0.735212],
        "mean_grad mean_square momentum",
    ),
    "centered": (
        lambda p: O.RMSProp(0.1, rho=0.9, centered=True, parameters=p),
        [1.031416, 0.045602, -0.312305, -0.350352, -0.300023],
        "mean_grad mean_square momentum",
    ),
    "lamb": (
        lambda p: O.Lamb(0.1, lamb_weight_decay=0.05, parameters=p),
        [1.07429, -0.066468, -0.4313, -0.539384, -0.005206],
        "beta1_pow_acc beta2_pow_acc moment1 moment2",
    ),
    "adadelta": (
        lambda p: O.Adadelta(1.0, parameters=p, rho=0.9),
        [1.617506, -0.602246, -0.524677, -1.061376, 0.094461],
        "_avg_squared_grad _avg_squared_update",
    ),
    "adamw": (
        lambda p: O.AdamW(0.1, parameters=p, weight_decay=0.1),
        [1.151005, -0.160853, -0.435728, -0.625636, -0.240168],
        "beta1_pow_acc beta2_pow_acc moment1 moment2",
    ),
    "lookahead": (look_ahead, [1.230722, -0.451256, -0.485432, -0.833738, -0.094308], "slow"),
}


def linear():
    net = nn.Linear(4, 3)
    net.weight.set_value(WEIGHT)
    net.bias.set_value(BIAS)
    return net


def train(net, optimizer, steps):
    for i in steps:
        (net(paddle.to_tensor(batch(i))) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name):
    make, want, accumulators = RECORDED[name]
    net = linear()
    optimizer = make(net.parameters())
    train(net, optimizer, range(5))
    got = [*net.weight.numpy().ravel()[:4], net.bias.numpy()[0]]
    np.testing.assert_allclose(got, want, atol=2e-5)
    names = {f"{p.name}_{a}_0" for p in net.parameters() for a in accumulators.split()}
    assert set(optimizer.state_dict()) == names


@pytest.mark.parametrize("name", [n for n in RECORDED if n != "lookahead"])
def test_state_continues(name):
    """Half of the steps, the state loaded into a new optimizer, the other half: equal to all steps."""
    make = RECORDED[name][0]
    with fluid.unique_name.guard():
        net = linear()
        optimizer = make(net.parameters())
        train(net, optimizer, range(3))
        state = {k: v.numpy() for k, v in optimizer.state_dict().items()}
    with fluid.unique_name.guard():
        again = linear()
        again.set_state_dict(net.state_dict())
        optimizer = make(again.parameters())
        optimizer.set_state_dict(state)
        train(again, optimizer, range(3, 5))
    np.testing.assert_allclose([*again.weight.numpy().ravel()[:4], again.bias.numpy()[0]], RECORDED[name][1], atol=2e-5)


def lars(p):
    return fluid.optimizer.LarsMomentum(0.5, 0.9, 0.1, parameter_list=p, exclude_from_weight_decay=["b_0"])


FLUID = {
    "adagrad": lambda p: fluid.optimizer.AdagradOptimizer(0.1, parameter_list=p),
    "decayed": lambda p: fluid.optimizer.DecayedAdagradOptimizer(0.1, parameter_list=p),
    "adadelta": lambda p: fluid.optimizer.AdadeltaOptimizer(0.1, epsilon=1e-3, parameter_list=p),
    "adamax": lambda p: fluid.optimizer.AdamaxOptimizer(0.1, parameter_list=p),
    "rmsprop": lambda p: fluid.optimizer.RMSPropOptimizer(0.1, momentum=0.5, parameter_list=p),
    "ftrl": lambda p: fluid.optimizer.FtrlOptimizer(0.1, l1=0.01, l2=0.01, parameter_list=p),
    "lamb": lambda p: fluid.optimizer.LambOptimizer(0.1, parameter_list=p),
    "lars": lars,
    "dpsgd": lambda p: fluid.optimizer.DpsgdOptimizer(0.1, clip=1.0, batch_size=4.0, sigma=0.0, parameter_list=p),
}


@pytest.fixture
def static():
    paddle.enable_static()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        yield main, startup
    paddle.disable_static()


def build():
    """A loss of a layer with the weights of `linear`."""
    x = fluid.data("x", [None, 4], "float32")
    assign = nn.initializer.Assign
    out = fluid.layers.fc(
        x,
        3,
        param_attr=fluid.ParamAttr(name="w_0", initializer=assign(WEIGHT)),
        bias_attr=fluid.ParamAttr(name="b_0", initializer=assign(BIAS)),
    )
    return fluid.layers.mean(fluid.layers.square(out))


def weights():
    return np.array(fluid.global_scope().find_var("w_0").get_tensor())


@pytest.mark.parametrize("name", FLUID)
def test_fluid_alike_in_both_modes(name, request):
    net = linear()
    optimizer = FLUID[name](net.parameters())
    for i in range(4):
        loss = (net(paddle.to_tensor(batch(i))) ** 2).mean()
        loss.backward()
        optimizer.minimize(loss)
        net.clear_gradients()
    main, startup = request.getfixturevalue("static")
    loss = build()
    FLUID[name](None).minimize(loss)
    exe = fluid.Executor()
    exe.run(startup)
    for i in range(4):
        exe.run(main, feed={"x": batch(i)}, fetch_list=[loss])
    np.testing.assert_allclose(weights(), net.weight.numpy(), rtol=2e-4, atol=2e-5)
    assert np.abs(weights() - WEIGHT).max() > 1e-3


@pytest.mark.parametrize("name", ["adagrad", "ftrl", "rmsprop", "lamb"])
def test_sparse_gradients(name):
    """A table with sparse gradients: rows without a gradient differ, the others are as with a dense gradient."""
    found = []
    for sparse in (False, True):
        table = nn.Embedding(6, 2, sparse=sparse)
        table.weight.set_value(np.arange(12, dtype="float32").reshape(6, 2) / 8 + 0.1)
        optimizer = FLUID[name](table.parameters())
        for rows in ([0, 3, 3], [3, 5]):
            loss = (table(paddle.to_tensor(rows)) ** 2).sum()
            loss.backward()
            optimizer.minimize(loss)
            table.clear_gradients()
        found.append(table.weight.numpy())
    # Zero dense gradients set FTRL's weights to zero, sparse ones leave them unchanged.
    kept = [0, 3] if name == "ftrl" else list(range(6))
    np.testing.assert_allclose(found[0][kept], found[1][kept], rtol=1e-5, atol=1e-6)


def test_adam_and_lamb_class_hierarchy():
    assert issubclass(fluid.optimizer.Lamb, fluid.optimizer.Adam)
    with pytest.raises(ValueError, match="rho"):
        O.RMSProp(0.1, rho=-1.0, parameters=[])
    with pytest.raises(ValueError, match="epsilon is not set"):
        fluid.optimizer.Adadelta(0.1, epsilon=None, parameter_list=[])
    with pytest.raises(ValueError, match="beta2"):
        O.Adamax(0.1, beta2=1.0, parameters=[])
    with pytest.raises(Exception, match="In dygraph, don.t support"):
        fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0)


def test_small_parameters_of_dgc_use_momentum(static):
    x = fluid.data("x", [None, 4])
    loss = fluid.layers.mean(fluid.layers.fc(x, 8))
    fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0).minimize(loss)
    types = [op.type for op in loss.block.ops]
    assert types.count("momentum") == 2 and types[0] == "increment"
    with pytest.raises(TypeError, match="ClipGradByNorm"):
        fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))
    with pytest.raises(AssertionError, match="num_trainers"):
        fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0, grad_clip=fluid.clip.GradientClipByNorm(1.0))


# model averages


def sgd_weights(n):
    """The weights after each of n steps of SGD."""
    net = linear()
    sgd = O.SGD(0.1, parameters=net.parameters())
    out = []
    for i in range(n):
        train(net, sgd, [i])
        out.append(net.weight.numpy())
    return out


def test_model_average_of_programs(static):
    main, startup = static
    loss = build()
    fluid.optimizer.SGD(0.1).minimize(loss)
    average = fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=3)
    exe = fluid.Executor()
    exe.run(startup)
    for i in range(5):
        exe.run(main, feed={"x": batch(i)})
    last = weights()
    with average.apply(exe):
        swapped = weights()
    np.testing.assert_array_equal(weights(), last)
    with average.apply(exe, need_restore=False):
        pass
    np.testing.assert_array_equal(weights(), swapped)
    average.restore(exe)
    np.testing.assert_array_equal(weights(), last)
    paddle.disable_static()
    # Windows were full after steps 2 and 4, so the third window contains step 5.
    np.testing.assert_allclose(swapped, np.mean(sgd_weights(5)[2:], axis=0), rtol=1e-5)
    paddle.enable_static()


def test_model_average_in_dygraph():
    net = linear()
    sgd = O.SGD(0.1, parameters=net.parameters())
    average = paddle.incubate.ModelAverage(0.5, net.parameters(), 2, 3)
    for i in range(5):
        (net(paddle.to_tensor(batch(i))) ** 2).mean().backward()
        sgd.step()
        average.step()
        sgd.clear_grad()
    last = net.weight.numpy()
    with average.apply():
        np.testing.assert_allclose(net.weight.numpy(), np.mean(sgd_weights(5)[2:], axis=0), rtol=1e-5)
    np.testing.assert_array_equal(net.weight.numpy(), last)
    with pytest.raises(Exception, match="In dygraph, don.t support"):
        fluid.optimizer.ModelAverage(0.5)


def test_incubate_model_average_of_programs(static):
    main, startup = static
    loss = build()
    fluid.optimizer.SGD(0.1).minimize(loss)
    average = paddle.incubate.ModelAverage(0.5, None, 2, 3)
    exe = fluid.Executor()
    exe.run(startup)
    for i in range(5):
        exe.run(main, feed={"x": batch(i)})
    with pytest.raises(RuntimeError, match="Executor"), average.apply():
        pass
    with average.apply(exe):
        swapped = weights()
    paddle.disable_static()
    np.testing.assert_allclose(swapped, np.mean(sgd_weights(5)[2:], axis=0), rtol=1e-5)
    paddle.enable_static()


@pytest.mark.parametrize("scheduled", [False, True])
def test_exponential_moving_average(static, scheduled):
    main, startup = static
    loss = build()
    fluid.optimizer.SGD(0.1).minimize(loss)
    steps = fluid.layers.autoincreased_step_counter() if scheduled else None
    ema = fluid.optimizer.ExponentialMovingAverage(0.6, thres_steps=steps)
    ema.update()
    exe = fluid.Executor()
    exe.run(startup)
    for i in range(3):
        exe.run(main, feed={"x": batch(i)})
    last = weights()
    with ema.apply(exe):
        swapped = weights()
    np.testing.assert_array_equal(weights(), last)
    paddle.disable_static()
    want, decay = 0.0, 0.6
    for i, w in enumerate(sgd_weights(3)):
        decay = min(0.6, (i + 2) / (i + 11)) if scheduled else 0.6
        want = decay * want + (1 - decay) * w
    np.testing.assert_allclose(swapped, want / (1 - decay**3), rtol=1e-5)
    paddle.enable_static()


def test_exponential_moving_average_before_a_step(static):
    main, startup = static
    build()
    ema = fluid.optimizer.ExponentialMovingAverage(0.6)
    ema.update()
    exe = fluid.Executor()
    exe.run(startup)
    with ema.apply(exe):
        assert not weights().any()
    np.testing.assert_array_equal(weights(), WEIGHT)


# optimizer wrappers


@pytest.mark.parametrize("face", ["fluid", "incubate"])
def test_lookahead_of_programs(static, face):
    main, startup = static
    loss = build()
    if face == "fluid":
        fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), alpha=0.3, k=2).minimize(loss)
    else:
        paddle.incubate.LookAhead(O.SGD(0.1), alpha=0.3, k=2).minimize(loss)
    exe = fluid.Executor()
    exe.run(startup)
    for i in range(5):
        exe.run(main, feed={"x": batch(i)})
    np.testing.assert_allclose(weights().ravel()[:4], RECORDED["lookahead"][1][:4], atol=2e-5)


def test_lookahead_errors():
    sgd = O.SGD(0.1, parameters=[])
    for arguments in ({"alpha": 1.5}, {"k": 0}, {"k": 1.5}):
        with pytest.raises(AssertionError, match=next(iter(arguments))):
            paddle.incubate.LookAhead(sgd, **arguments)
    with pytest.raises(Exception, match="In dygraph, don.t support"):
        fluid.optimizer.LookaheadOptimizer(sgd)


@pytest.mark.parametrize("avg", [True, False])
def test_gradient_merge(static, avg):
    main, startup = static
    loss = build()
    merged = fluid.optimizer.GradientMergeOptimizer(fluid.optimizer.Momentum(0.1, 0.9), k_steps=2, avg=avg)
    merged.minimize(loss)
    exe = fluid.Executor()
    exe.run(startup)
    for i in range(5):
        exe.run(main, feed={"x": batch(i)})
    got = weights()
    paddle.disable_static()
    net = linear()
    momentum = O.Momentum(0.1, 0.9, parameters=net.parameters())
    for i in range(4):
        loss = (net(paddle.to_tensor(batch(i))) ** 2).mean()
        (loss * (0.5 if avg else 1.0)).backward()
        if i % 2:
            momentum.step()
            momentum.clear_grad()
    np.testing.assert_allclose(got, net.weight.numpy(), rtol=1e-5, atol=1e-6)
    paddle.enable_static()


def test_pipeline_errors(static):
    pipeline = fluid.optimizer.PipelineOptimizer(fluid.optimizer.SGD(0.1), num_microbatches=2)
    with pytest.raises(AssertionError, match="fleet"):
        pipeline.minimize(build())
    with pytest.raises(ValueError, match="Optimizer"):
        fluid.optimizer.PipelineOptimizer(1)
    with pytest.raises(AssertionError, match="num_microbatches"):
        fluid.optimizer.PipelineOptimizer(fluid.optimizer.SGD(0.1), 0)


def test_gradient_merge_errors():
    with pytest.raises(Exception, match="Programs only"):
        fluid.optimizer.GradientMergeOptimizer(None)
