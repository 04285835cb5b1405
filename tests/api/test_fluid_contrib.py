"""fluid.contrib: optimizers with decoupled weight decay, distributed batch readers."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest


@pytest.fixture(autouse=True)
def _dygraph_again():
    yield
    paddle.disable_static()


def trained(optimizer, coefficient=None, steps=2):
    """Parameters after some steps of a small network with fixed initial values."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [4, 3])
        one = fluid.ParamAttr("one", initializer=fluid.initializer.Constant(0.5))
        two = fluid.ParamAttr("two", initializer=fluid.initializer.Constant(0.25))
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 2, param_attr=one), 1, param_attr=two))
        optimizer(loss)
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for _ in range(steps):
            exe.run(main, feed={"x": np.arange(12, dtype="float32").reshape(4, 3)})
        return [np.array(fluid.global_scope().find_var(n).get_tensor()) for n in ("one", "two")], main


@pytest.mark.parametrize("base", [fluid.optimizer.SGD, fluid.optimizer.Adam, fluid.optimizer.Momentum])
def test_decoupled_decay(base):
    """As in upstream's test: the decay is applied manually between backward and apply_optimize."""
    paddle.enable_static()
    more = {"momentum": 0.9} if base is fluid.optimizer.Momentum else {}
    decayed = fluid.contrib.extend_with_decoupled_weight_decay(base)
    made = []

    def by_hand(loss):
        inner = base(learning_rate=0.1, **more)
        pairs = inner.backward(loss)
        taken = [(p, p * 0.2) for p, _ in pairs if p.name != "two"]
        for p, t in taken:
            fluid.layers.assign(fluid.layers.elementwise_sub(p, t), output=p)
        inner.apply_optimize(loss, fluid.default_startup_program(), pairs)

    def extended(loss):
        made.append(decayed(weight_decay=0.2, apply_decay_param_fun=lambda n: n != "two", learning_rate=0.1, **more))
        made.append(made[0].minimize(loss))

    want, _ = trained(by_hand)
    got, main = trained(extended)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)
    assert not np.allclose(got[0], trained(lambda loss: base(learning_rate=0.1, **more).minimize(loss))[0][0])
    assert len(made[1][1]) == 4 and "one" in str(made[0]) and "two" not in str(made[0])
    # clone(for_test=True) removes the decay together with the update
    assert "assign" in [op.type for op in main.global_block().ops]
    assert "assign" not in [op.type for op in main.clone(for_test=True).global_block().ops]


def test_decay_by_a_variable():
    paddle.enable_static()
    decayed = fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.SGD)

    def extended(dtype):
        def minimize(loss):
            decayed(fluid.layers.fill_constant([1], dtype, 0.5), learning_rate=0.0).minimize(loss)

        return minimize

    got, _ = trained(extended("float32"))
    np.testing.assert_allclose(got[0], 0.125)
    with pytest.raises(TypeError, match="parameter one"):
        trained(extended("float64"))


def test_no_decay_at_all():
    paddle.enable_static()
    decayed = fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.SGD)
    got, main = trained(lambda loss: decayed(0.0, learning_rate=0.0).minimize(loss))
    np.testing.assert_array_equal(got[0], np.float32(0.5))
    assert "assign" not in [op.type for op in main.global_block().ops]


def test_decay_errors():
    extend = fluid.contrib.extend_with_decoupled_weight_decay
    for wrong in (paddle.optimizer.Adam, fluid.Program, 3):
        with pytest.raises(TypeError, match="class of fluid.optimizer"):
            extend(wrong)
    with pytest.raises(TypeError, match="weight_decay must be a float"):
        extend(fluid.optimizer.SGD)(1, learning_rate=0.1)


@pytest.mark.parametrize(
    ("trainers", "expected"),
    [
        (1, [[0, 1, 2, 3, 4]]),
        (2, [[0, 2], [1, 3]]),
        (4, [[0], [1], [2], [3]]),
        (6, [[]] * 6),
    ],
)
def test_batches_are_distributed(monkeypatch, trainers, expected):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", str(trainers))
    for number, batches in enumerate(expected):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(number))
        reader = fluid.contrib.reader.distributed_batch_reader(lambda: iter(range(5)))
        assert list(reader()) == batches and list(reader()) == batches
    monkeypatch.setenv("PADDLE_TRAINER_ID", str(trainers))
    with pytest.raises(ValueError, match=f"PADDLE_TRAINER_ID is {trainers}, with {trainers} trainers"):
        paddle.incubate.reader.distributed_batch_reader(list)
