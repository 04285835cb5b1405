"""Gradient clips and weight decay in dygraph mode; the expected values follow from the definitions."""

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle import _ops  # noqa: E402
from paddle.nn import clip as clips  # noqa: E402
from paddle.nn.layer.layers import Layer  # noqa: E402
from paddle.optimizer.regularization import append_regularization_ops  # noqa: E402
from paddle.regularizer import L1Decay, L2Decay  # noqa: E402

VALUES = [[3.0, -4.0], [0.5, 0.25], [12.0, 0.0]]


def pairs():
    maker = Layer()
    made = [(maker.create_parameter([2]), paddle.to_tensor(np.float32(v))) for v in VALUES]
    made[1][0].need_clip = False
    return [*made, (maker.create_parameter([2]), None)]


def run(clip):
    before = pairs()
    after = clip(before)
    assert [p for p, _ in after] == [p for p, _ in before[:3]]  # a pair without a gradient is dropped
    return [g.numpy().tolist() for _, g in after]


def test_by_value():
    assert run(clips.ClipGradByValue(2.0)) == [[2.0, -2.0], VALUES[1], [2.0, 0.0]]
    assert run(clips.ClipGradByValue(5.0, min=-1.0)) == [[3.0, -1.0], VALUES[1], [5.0, 0.0]]
    with pytest.raises(AssertionError):
        clips.ClipGradByValue(-1.0)


def test_by_norm():
    np.testing.assert_allclose(run(clips.ClipGradByNorm(6.0)), [VALUES[0], VALUES[1], [6.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("kind, bound", [("GlobalNorm", 0.5), ("Norm", 0.5), ("Value", 0.1)])
@pytest.mark.parametrize("in_program", [False, True])
def test_sparse_gradients_are_clipped_like_dense_ones(kind, bound, in_program):
    clip = getattr(clips, f"ClipGradBy{kind}")(bound)
    ids, start = np.array([[1, 2, 2]]), np.float32(np.arange(8).reshape(4, 2))

    def loss_of(sparse, ids):
        table = paddle.nn.Embedding(
            4, 2, sparse=sparse, weight_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(start))
        )
        rows = table(ids)
        return table.weight, paddle.mean(rows * rows)

    def in_static_mode(sparse):
        st = paddle.static
        main, startup = st.Program(), st.Program()
        with st.program_guard(main, startup), st.scope_guard(st.Scope()):
            weight, loss = loss_of(sparse, st.data("ids", [1, 3], "int64"))
            paddle.optimizer.SGD(0.1, grad_clip=clip).minimize(loss)
            exe = st.Executor()
            exe.run(startup)
            return exe.run(main, feed={"ids": ids}, fetch_list=[weight])[0]

    def in_dygraph_mode(sparse):
        weight, loss = loss_of(sparse, paddle.to_tensor(ids))
        loss.backward()
        paddle.optimizer.SGD(0.1, parameters=[weight], grad_clip=clip).step()
        return weight.numpy()

    if in_program:
        paddle.enable_static()
    try:
        dense, sparse = map(in_static_mode if in_program else in_dygraph_mode, (False, True))
    finally:
        paddle.disable_static()
    assert (dense != start).any()
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


def test_by_global_norm():
    # the joint norm of 3, 4 and 12 is 13
    np.testing.assert_allclose(run(clips.ClipGradByGlobalNorm(6.5)), [[1.5, -2.0], VALUES[1], [6.0, 0.0]], rtol=1e-6)
    assert run(clips.ClipGradByGlobalNorm(20.0)) == VALUES
    frozen = pairs()[1:2]
    assert clips.ClipGradByGlobalNorm(0.1)(frozen) == frozen


def test_names():
    assert str(clips.ClipGradByValue(2)) == "Clip Gradient By Value, min = -2.000000, max=2.000000"
    assert str(clips.ClipGradByNorm(2)) == "Gradient Clip By Norm, clip_norm=2.000000"
    assert str(clips.ClipGradByGlobalNorm(2)) == "Gradient Clip By GlobalNorm, global_norm=2.000000"
    assert str(clips.ErrorClipByValue(2, -1)) == "ByValue, min=-1.000000, max=2.000000"
    assert clips.GradientClipByValue is clips.ClipGradByValue
    with pytest.raises(NotImplementedError):
        str(clips.ClipGradBase())


def test_weight_decay():
    made = pairs()[:2]
    for param, _ in made:
        param.set_value(np.float32([2.0, 2.0]))
    made[0][0].regularizer = L2Decay(0.25)
    got = append_regularization_ops(made, L2Decay(0.5))
    assert [g.numpy().tolist() for _, g in got] == [[3.5, -3.5], [1.5, 1.25]]  # the parameter's own first
    made[0][0].regularizer = None
    assert append_regularization_ops(made)[0][1] is made[0][1]
    assert append_regularization_ops([(made[0][0], None)], L2Decay(0.5))[0][1] is None
    with pytest.raises(AssertionError):
        L2Decay(0.5)(3, None, None)


@pytest.mark.skipif(not hasattr(_ops, "sign"), reason="the operator sign is missing")
def test_l1_decay():
    made = pairs()[:1]
    made[0][0].set_value(np.float32([2.0, -3.0]))
    got = append_regularization_ops(made, L1Decay(0.5))
    assert got[0][1].numpy().tolist() == [3.5, -4.5]
