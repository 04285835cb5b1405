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
    assert {"random_fill<double, double>", "random_fill<i64, i64>"} <= set(device.started)


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
    assert "dropout<double, true>" in device.started


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


def test_sampled_classes(device):
    x, label = paddle.to_tensor(np.ones((300, 2), "float32")), paddle.to_tensor(np.full((300, 1), 3))
    w = paddle.to_tensor(np.ones((8, 2), "float32"))
    for sampler in (0, 1):
        cost, logits, labels = _core.ops.nce(x, label, w, num_total_classes=8, num_neg_samples=5, sampler=sampler)
        found = labels.numpy()
        assert found.shape == (300, 6) and (found[:, 0] == 3).all() and found.min() >= 0 and found.max() < 8
        counts = np.bincount(found[:, 1:].ravel(), minlength=8) / 1500
        c = np.arange(8)
        want = np.full(8, 1 / 8) if sampler == 0 else np.log((c + 2) / (c + 1)) / np.log(8)
        # Log-uniform numbers end one class earlier than those of the formula.
        assert np.abs(counts - want)[: 8 - sampler].max() < 0.06 and np.isfinite(cost.numpy()).all()


def test_a_seeded_custom_distribution(device):
    """Walker's method takes two independent numbers for a class, also where the seed is an attribute."""
    x, label = paddle.to_tensor(np.ones((500, 2), "float32")), paddle.to_tensor(np.full((500, 1), 3))
    w, names = paddle.to_tensor(np.ones((4, 2), "float32")), ("Probs", "Alias", "AliasProbs")
    given = [0.1, 0.2, 0.3, 0.4], [3, 3, 2, -1], [0.4, 0.8, 1.0, 1.0]
    # Class 2 has 0.3 of 0.25: it is the alias of none here, so that 0.05 are those of class 3.
    want = np.array([0.1, 0.2, 0.25, 0.45])
    custom = {
        f"CustomDist{name}": paddle.to_tensor(np.array(v, "int32" if name == "Alias" else "float32"))
        for name, v in zip(names, given, strict=True)
    }
    attrs = {"num_total_classes": 4, "num_neg_samples": 8, "sampler": 2, "seed": 5}
    found = _core.ops.nce(x, label, w, **custom, **attrs)[2].numpy()[:, 1:]
    assert np.abs(np.bincount(found.ravel(), minlength=4) / found.size - want).max() < 0.03


def test_distinct_classes(device):
    scores = paddle.to_tensor(np.zeros((2, 40), "float64"), stop_gradient=False)
    labels = paddle.to_tensor(np.array([[1], [2]]))
    samples, p, _, _, sampled, tags = _core.ops.sample_logits(scores, labels, num_samples=30)
    found = samples.numpy()
    assert found.shape == (2, 31) and len(set(found[0, 1:])) == 30 and found.max() < 40
    assert (found[0, 1:] == found[1, 1:]).all() and (p.numpy() > 0).all() and tags.numpy().tolist() == [[0], [0]]
    hits = found[:, 1:] == found[:, :1]
    assert (sampled.numpy()[:, 1:][hits] < -1e19).all() and (sampled.numpy()[:, 1:][~hits] > -1e19).all()
    assert "draw_classes" in device.started


@pytest.mark.parametrize("positive", [False, True])
def test_tree_samples(positive, device):
    """Each layer of a path has distinct other nodes of its layer; a path that ends early has zeros."""
    leaves = paddle.to_tensor(np.array([[0], [1], [2]]))
    travel = paddle.to_tensor(np.array([[1, 3], [2, 6], [2, 0]]))
    nodes = paddle.to_tensor(np.array([[1], [2], [3], [4], [5], [6]]))
    attrs = {"neg_samples_num_list": [1, 3], "layer_offset_lod": [0, 2, 6], "output_positive": positive, "dtype": 3}
    out, labels, mask = (t.numpy() for t in _core.ops.tdm_sampler(leaves, travel, nodes, **attrs))
    own = int(positive)
    first, second = out[:, : 1 + own], out[:, 1 + own :]
    if positive:
        assert first[:, 0].tolist() == [1, 2, 2] and second[:, 0].tolist() == [3, 6, 0]
        assert labels[:, 0].tolist() == [1, 1, 1] and labels[:, 2].tolist() == [1, 1, 0]
    assert first[:, own].tolist() == [2, 1, 1]
    assert set(second[0, own:]) == {4, 5, 6} and set(second[1, own:]) == {3, 4, 5} and not second[2].any()
    assert mask[2].tolist() == [1] * (1 + own) + [0] * (3 + own) and "draw_nodes" in device.started
