"""Gradient clips and weight decay in dygraph mode; the expected values follow from the definitions."""

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle import _ops  # noqa: E402
from paddle.framework.regularizer import append_regularization_ops  # noqa: E402
from paddle.nn import clip as clips  # noqa: E402
from paddle.nn.layer.layers import Layer  # noqa: E402
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
    assert [p for p, _ in after] == [p for p, _ in before[:3]]  # a pair without a gradient is left out
    return [g.numpy().tolist() for _, g in after]


def test_by_value():
    assert run(clips.ClipGradByValue(2.0)) == [[2.0, -2.0], VALUES[1], [2.0, 0.0]]
    assert run(clips.ClipGradByValue(5.0, min=-1.0)) == [[3.0, -1.0], VALUES[1], [5.0, 0.0]]
    with pytest.raises(AssertionError):
        clips.ClipGradByValue(-1.0)


def test_by_norm():
    np.testing.assert_allclose(run(clips.ClipGradByNorm(6.0)), [VALUES[0], VALUES[1], [6.0, 0.0]], rtol=1e-6)


def test_by_global_norm():
    # 3, 4 and 12 together have the norm 13.
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
    assert [g.numpy().tolist() for _, g in got] == [[3.5, -3.5], [1.5, 1.25]]  # its own before the optimizer's
    made[0][0].regularizer = None
    assert append_regularization_ops(made)[0][1] is made[0][1]
    assert append_regularization_ops([(made[0][0], None)], L2Decay(0.5))[0][1] is None
    with pytest.raises(AssertionError):
        L2Decay(0.5)(3, None, None)


@pytest.mark.skipif(not hasattr(_ops, "sign"), reason="the operator sign is not there yet")
def test_l1_decay():
    made = pairs()[:1]
    made[0][0].set_value(np.float32([2.0, -3.0]))
    got = append_regularization_ops(made, L1Decay(0.5))
    assert got[0][1].numpy().tolist() == [3.5, -4.5]
