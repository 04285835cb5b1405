"""Random operators on the stand-in: ranges, moments, seeds, and the mask of dropout."""

import numpy as np
import paddle
import pytest
from paddle import _core


@pytest.fixture
def device(shim):
    paddle.set_device("gpu")
    paddle.seed(3)
    yield shim
    paddle.set_device("cpu")


N = 4000


def test_distributions(device):
    u = _core.ops.uniform_random(shape=[N], min=-2.0, max=3.0, dtype=6).numpy()
    assert u.dtype == np.float64 and u.min() >= -2 and u.max() < 3 and abs(u.mean() - 0.5) < 0.1
    assert abs(u.var() - 25 / 12) < 0.15 and len(np.unique(u)) == N
    g = _core.ops.gaussian_random(shape=[N], mean=1.0, std=2.0).numpy()
    assert g.dtype == np.float32 and abs(g.mean() - 1) < 0.15 and abs(g.std() - 2) < 0.15
    t = _core.ops.truncated_gaussian_random(shape=[N], mean=0.0, std=1.0).numpy()
    assert abs(t).max() <= 2 and abs(t.std() - 0.8796) < 0.05 and abs(t.mean()) < 0.06
    i = _core.ops.randint(shape=[N], low=-3, high=4).numpy()
    assert sorted(np.unique(i)) == list(range(-3, 4)) and i.dtype == np.int64
    assert sorted(_core.ops.randperm(n=50).numpy()) == list(range(50))
    assert {k.split("<")[0] for k in device.started} >= {"random_fill", "random_integers"}


def test_seeds(device):
    def draw(**more):
        return _core.ops.uniform_random(shape=[5], **more).numpy().tolist()

    assert draw(seed=7) == draw(seed=7) != draw(seed=8)
    paddle.seed(11)
    first = draw(), draw()
    paddle.seed(11)
    assert first == (draw(), draw()) and first[0] != first[1]


@pytest.mark.parametrize("way", ["upscale_in_train", "downgrade_in_infer"])
def test_dropout(way, device):
    x = paddle.to_tensor(np.linspace(1, 2, N), stop_gradient=False)
    out = paddle.nn.functional.dropout(x, 0.25, mode=way.replace("downgrade", "downscale"))
    kept = out.numpy() != 0
    assert abs(kept.mean() - 0.75) < 0.04
    scale = 4 / 3 if way == "upscale_in_train" else 1
    np.testing.assert_allclose(out.numpy()[kept], x.numpy()[kept] * scale)
    out.sum().backward()
    np.testing.assert_allclose(x.gradient(), kept * scale)
    assert "dropout<double>" in device.started


def test_choices(device):
    p = paddle.to_tensor(np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]]))
    drawn = _core.ops.multinomial(p, num_samples=800, replacement=True).numpy()
    assert abs((drawn[0] == 2).mean() - 0.75) < 0.07 and not (drawn[0] == 0).any() and not drawn[1].any()
    apart = _core.ops.multinomial(paddle.to_tensor(np.array([0.1, 0.0, 0.9])), num_samples=2).numpy()
    assert sorted(apart.tolist()) == [0, 2]
    assert _core.ops.sampling_id(paddle.to_tensor(np.eye(4))).numpy().tolist() == [0, 1, 2, 3]
    half = _core.ops.bernoulli(paddle.full([N], 0.5, "float64")).numpy()
    assert set(np.unique(half)) == {0.0, 1.0} and abs(half.mean() - 0.5) < 0.04
    assert _core.ops.seed(seed=5).numpy().tolist() == [5]


def test_shuffled_rows(device):
    x = paddle.to_tensor(np.arange(12.0).reshape(6, 2), stop_gradient=False)
    out, order, _ = _core.ops.shuffle_batch(x, paddle.to_tensor(np.array([3])))
    np.testing.assert_array_equal(out.numpy(), x.numpy()[order.numpy()])
    assert sorted(order.numpy()) == list(range(6))
    (out * out.detach()).sum().backward()
    np.testing.assert_array_equal(x.gradient(), x.numpy())


def test_shapes_of_a_batch(device):
    x = paddle.ones([7, 2])
    for op in ("uniform_random_batch_size_like", "gaussian_random_batch_size_like"):
        assert getattr(_core.ops, op)(x, shape=[-1, 3]).shape == [7, 3]
    assert _core.ops.empty(shape=[2, 3]).shape == [2, 3]
