"""Optimizers: static and dygraph mode agree; state, errors, sparse gradients."""

import nn_cases
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
import pytest
from paddle import _ops, fluid

X, Y = nn_cases.X, nn_cases.LABEL % 3


@pytest.fixture
def static():
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.static.scope_guard(paddle.static.Scope()):
        yield main, startup
    paddle.disable_static()


def net():
    weights = [nn_cases.rand(6, 5, seed=1), nn_cases.rand(5, 3, seed=2)]
    first, last = (nn.initializer.Assign(w) for w in weights)
    attrs = [paddle.ParamAttr(initializer=first, learning_rate=0.5), paddle.ParamAttr(initializer=last)]
    return nn.Sequential(nn.Linear(6, 5, weight_attr=attrs[0]), nn.Tanh(), nn.Linear(5, 3, weight_attr=attrs[1]))


def rate(scheduled):
    return paddle.optimizer.lr.ExponentialDecay(0.1, 0.7) if scheduled else 0.1


def dygraph_losses(make, scheduled):
    model, lr = net(), rate(scheduled)
    optimizer = make(lr, parameters=model.parameters())
    out = []
    for _ in range(5):
        loss = F.cross_entropy(model(paddle.to_tensor(X)), paddle.to_tensor(Y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if scheduled:
            lr.step()
        out.append(float(loss))
    return out


MAKERS = {
    "sgd": paddle.optimizer.SGD,
    "momentum": lambda lr, **kw: paddle.optimizer.Momentum(lr, 0.8, use_nesterov=True, weight_decay=0.1, **kw),
    "adam": lambda lr, **kw: paddle.optimizer.Adam(lr, grad_clip=nn.ClipGradByGlobalNorm(0.5), **kw),
    "adamw": lambda lr, **kw: paddle.optimizer.AdamW(lr, weight_decay=0.1, **kw),
    "l2": lambda lr, **kw: paddle.optimizer.Momentum(lr, weight_decay=paddle.regularizer.L2Decay(0.1), **kw),
    "adagrad": lambda lr, **kw: paddle.optimizer.Adagrad(lr, initial_accumulator_value=0.1, weight_decay=0.01, **kw),
    "adadelta": lambda lr, **kw: paddle.optimizer.Adadelta(lr, rho=0.5, epsilon=1e-3, **kw),
    "adamax": lambda lr, **kw: paddle.optimizer.Adamax(lr, grad_clip=nn.ClipGradByGlobalNorm(0.5), **kw),
    "rmsprop": lambda lr, **kw: paddle.optimizer.RMSProp(lr, momentum=0.5, centered=True, **kw),
    "lamb": lambda lr, **kw: paddle.optimizer.Lamb(lr, exclude_from_weight_decay_fn=lambda p: ".b_" in p.name, **kw),
}


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_static_as_dygraph(name, scheduled, request):
    expected = dygraph_losses(MAKERS[name], scheduled)
    main, startup = request.getfixturevalue("static")
    x, y = paddle.static.data("x", [None, 6]), paddle.static.data("y", [None], "int64")
    loss = F.cross_entropy(net()(x), y)
    lr = rate(scheduled)
    ops, pairs = MAKERS[name](lr).minimize(loss)
    assert len(pairs) == 4 and all(op.attr("op_role") & 2 for op in ops)
    exe = paddle.static.Executor()
    exe.run(startup)
    got = []
    for _ in range(5):
        got.append(exe.run(main, feed={"x": X, "y": Y}, fetch_list=[loss])[0].item())
        if scheduled:
            lr.step()
    np.testing.assert_allclose(got, expected, rtol=2e-5)
    assert expected[-1] < expected[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adamw_decays_in_the_same_pass(dtype, monkeypatch):
    """Bit for bit equal to scale followed by adam."""

    def run():
        weight = paddle.create_parameter([70, 30], dtype)
        weight.set_value(nn_cases.rand(70, 30).astype(dtype))
        optimizer = paddle.optimizer.AdamW(0.01, parameters=[weight], weight_decay=0.3)
        for step in range(4):
            if step == 2:
                optimizer.set_lr(0.05)
            (weight * paddle.to_tensor(nn_cases.rand(70, 30, seed=step).astype(dtype))).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
        return weight.numpy()

    one = run()
    monkeypatch.setattr(paddle.optimizer.AdamW, "_in_one_pass", lambda *_: False)
    assert np.array_equal(one, run())


def test_decay_of_a_half_parameter_is_refused():
    half, one = (paddle.ones([3], dtype) for dtype in ("float16", "float32"))
    with pytest.raises(ValueError, match="Decay requires a Param of float32 or float64, got float16"):
        _ops.adam(half, half, one[:1], one, one, one[:1], one[:1], None, None, None, one[:1] * 0.5, ParamOut=half)


def test_fluid_optimizers(static):
    main, startup = static
    x, y = paddle.static.data("x", [None, 6]), paddle.static.data("y", [None], "int64")
    loss = F.cross_entropy(net()(x), y)
    fluid.optimizer.AdamOptimizer(0.05, regularization=fluid.regularizer.L2Decay(0.01)).minimize(loss)
    exe = fluid.Executor()
    exe.run(startup)
    got = [exe.run(main, feed={"x": X, "y": Y}, fetch_list=[loss])[0].item() for _ in range(20)]
    assert got[-1] < got[0] * 0.7
    assert [op.type for op in main.global_block().ops].count("adam") == 4


def test_fluid_dygraph():
    model = net()
    optimizer = fluid.optimizer.MomentumOptimizer(0.1, 0.9, parameter_list=model.parameters())
    first = None
    for _ in range(10):
        loss = F.cross_entropy(model(paddle.to_tensor(X)), paddle.to_tensor(Y))
        loss.backward()
        optimizer.minimize(loss)
        model.clear_gradients()
        first = first or float(loss)
    assert float(loss) < first
    assert optimizer.current_step_lr() == 0.1


def test_accumulators_and_state():
    model = net()
    adam = paddle.optimizer.Adam(0.1, parameters=model.parameters())

    def step(optimizer):
        F.cross_entropy(model(paddle.to_tensor(X)), paddle.to_tensor(Y)).backward()
        optimizer.step()
        optimizer.clear_grad()

    step(adam)
    name = model[0].weight.name
    state = adam.state_dict()
    kinds = ("moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc")
    assert {f"{name}_{kind}_0" for kind in kinds} <= set(state)
    saved = {k: v.numpy() for k, v in state.items()}
    before = model[0].weight.numpy()
    step(adam)
    after = model[0].weight.numpy()
    adam.set_state_dict(saved)
    model[0].weight.set_value(before)
    step(adam)
    assert np.abs(model[0].weight.numpy() - after).max() < 0.1
    with pytest.raises(AssertionError):
        adam.set_state_dict({})


def test_set_lr_and_errors():
    model = net()
    sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    sgd.set_lr(0.5)
    model(paddle.to_tensor(X)).sum().backward()
    before, grad = model[2].bias.numpy(), np.asarray(model[2].bias._grad_ivar().numpy())
    sgd.step()
    np.testing.assert_allclose(model[2].bias.numpy(), before - 0.5 * grad, rtol=1e-6)
    assert sgd.get_lr() == 0.5
    with pytest.raises(TypeError):
        paddle.optimizer.SGD("0.1", parameters=model.parameters())
    with pytest.raises(AttributeError):
        paddle.optimizer.SGD(0.1)
    with pytest.raises(TypeError):
        paddle.optimizer.SGD(0.1, parameters=model.parameters(), grad_clip=1.0)
    with pytest.raises(ValueError):
        paddle.optimizer.Adam(0.1, beta1=1.0, parameters=model.parameters())
    scheduled = paddle.optimizer.SGD(rate(True), parameters=model.parameters())
    with pytest.raises(RuntimeError):
        scheduled.set_lr(0.1)


@pytest.mark.parametrize("lazy", [False, True])
def test_sparse_adam(lazy):
    paddle.seed(0)  # a weight near 0 would lose its digits
    table = nn.Embedding(6, 3, sparse=True)
    adam = paddle.optimizer.Adam(0.1, parameters=table.parameters(), lazy_mode=lazy)
    w = table.weight.numpy().astype("float64")
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, rows in enumerate(([1, 2, 2], [0, 2, 4]), 1):
        paddle.sum(table(paddle.to_tensor(np.array(rows))) ** 2).backward()
        assert table.weight._grad_ivar()._is_sparse()
        adam.step()
        adam.clear_grad()
        g = np.zeros_like(w)
        np.add.at(g, rows, 2 * w[rows])
        m2, v2 = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        # With sparse gradients Paddle's CPU kernel reads the beta powers of the next step.
        w2 = w - 0.1 * np.sqrt(1 - 0.999 ** (t + 1)) / (1 - 0.9 ** (t + 1)) * m2 / (np.sqrt(v2) + 1e-8)
        changed = np.isin(np.arange(6), rows)[:, None] if lazy else np.full((6, 1), True)
        m, v, w = np.where(changed, m2, m), np.where(changed, v2, v), np.where(changed, w2, w)
        np.testing.assert_allclose(table.weight.numpy(), w, rtol=1e-4, atol=1e-6)


def test_pos_weight():
    x, y = nn_cases.rand(4, 6), np.abs(nn_cases.rand(4, 6, seed=4))
    weight = np.arange(1, 7).astype("float32")
    got = F.binary_cross_entropy_with_logits(
        paddle.to_tensor(x), paddle.to_tensor(y), reduction="none", pos_weight=paddle.to_tensor(weight)
    )
    want = (np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))) * (y * (weight - 1) + 1)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_momentum_of_contrib():
    """Decay in the operator and decay before it are equivalent."""
    losses = []
    for module in (paddle.fluid.contrib.optimizer, paddle.fluid.optimizer):
        net = nn.Linear(2, 2, weight_attr=nn.initializer.Constant(2.0))
        momentum = module.Momentum(0.1, 0.9, net.parameters(), regularization=paddle.fluid.regularizer.L2Decay(0.1))
        for i in range(5):
            loss = (net(paddle.full([3, 2], float(i))) ** 2).mean()
            loss.backward()
            momentum.minimize(loss)
            net.clear_gradients()
        losses.append(float(loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
