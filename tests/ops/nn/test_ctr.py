"""Operators of CTR models: cos_sim, cvm, data_norm, tags, hashes, trees, sampling."""

import numpy as np
import paddle
import pytest
from case import case, covers, ints, real, table
from paddle import _core

ops = _core.ops


def cosine(x, y):
    x, y = x.reshape(len(x), -1), y.reshape(len(y), -1)
    x_norm, y_norm = (np.sqrt(np.maximum((v * v).sum(1, keepdims=True), 1e-8)) for v in (x, y))
    return (x * y).sum(1, keepdims=True) / x_norm / y_norm, x_norm, y_norm


X, Y = real(3, 4), real(3, 4, seed=2)

test_cos_sim = table(
    case("cos_sim", [X, Y], {}, cosine, grad="X Y", grad_of="Out", dtypes="float32"),
    case(
        "cos_sim",
        [X, Y[:1]],
        {},
        cosine,
        grad="X Y",
        grad_of="Out",
        lod={"X": [[0, 1, 3]]},
        out_lod={"Out": [[0, 1, 3]]},
    ),
    case("cos_sim", [real(2, 3, 2), real(2, 3, 2, seed=2)], {}, cosine, grad="X Y", grad_of="Out"),
    # A norm below the lower bound does not depend on the row.
    case("cos_sim", [X * 1e-6, Y], {}, cosine, grad="X Y", grad_of="Out", grad_tol=1e-4),
    case("cos_sim", [X[:0], Y[:0]], {}, (X[:0, :1],) * 3),
    case("cos_sim", [X, Y[:2]], raises=ValueError, match="same shape"),
    case("cos_sim", [X[0], Y[0]], raises=ValueError, match="2 dimensions"),
)

test_minus = table(
    case("minus", [X, Y], {}, np.subtract, grad="X Y", second=True, dtypes="float32"),
    case("minus", [X, Y[:1]], raises=ValueError, match="same shape"),
)

test_fill = table(
    case("fill", [], {"value": [1.5, -2.0, 0.0, 3.0], "shape": [2, 2]}, np.array([[1.5, -2], [0, 3]], "float32")),
    case("fill", [], {"value": [1.5, -2.0], "shape": [2, 1], "dtype": 3}, np.array([[1], [-2]])),
    case("fill", [], {"value": [1.5, 0.0], "shape": [2], "dtype": 0, "force_cpu": True}, np.array([True, False])),
    case("fill", [], {"value": [1.5], "shape": [1], "dtype": 4}, np.array([1.5], "float16")),
    case("fill", [], {"value": [1.0], "shape": [2]}, raises=ValueError, match="a number for each of the 2 elements"),
    case("fill", [], {"value": [1.0], "shape": [-1]}, raises=ValueError),
)


# Show and click: their gradient is the input itself, so it is not compared with differences.


def cvm(x, counts, use_cvm=True):
    if not use_cvm:
        return x[:, 2:]
    show = np.log(x[:, :1] + 1)
    return np.concatenate([show, np.log(x[:, 1:2] + 1) - show, x[:, 2:]], 1)


CLICKS, COUNTS = np.abs(real(3, 5)), np.abs(real(3, 2))

test_cvm = table(
    case("cvm", [CLICKS, COUNTS], {}, cvm, dtypes="float32"),
    case("cvm", [CLICKS, COUNTS], {"use_cvm": False}, cvm, lod={"X": [[0, 2, 3]]}, out_lod={"Y": [[0, 2, 3]]}),
    case("cvm", [CLICKS[:, :1], COUNTS], raises=ValueError, match="show and click"),
)


@covers("cvm")
@pytest.mark.parametrize("use_cvm", [True, False])
def test_gradient_of_show_and_click(use_cvm):
    x = paddle.to_tensor(CLICKS, stop_gradient=False)
    y = ops.cvm(x, paddle.to_tensor(COUNTS), use_cvm=use_cvm)
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.gradient()[:, :2], COUNTS)
    np.testing.assert_allclose(x.gradient()[:, 2:], 2 * CLICKS[:, 2:])
    with pytest.raises(ValueError, match="CVM must have show and click for 3 rows"):
        ops.cvm_grad(paddle.to_tensor(COUNTS[:2]), x, y, use_cvm=use_cvm)


# data_norm


def normalized(x, size, total, squares, scale_w=None, bias=None, slot_dim=-1, enable_scale_and_shift=False):
    means, scales = total / size, np.sqrt(size / squares)
    y = (x - means) * scales
    if enable_scale_and_shift:
        y = y * scale_w + bias
    if slot_dim > 0:
        shown = np.abs(x[:, ::slot_dim]) >= 1e-7
        y = y * np.repeat(shown, slot_dim, 1)
    return y, means, scales


STATS = {"BatchSize": np.full(4, 10.0), "BatchSum": real(4), "BatchSquareSum": real(4, low=5, high=40)}
HIDDEN = real(3, 4)
HIDDEN[1, 2] = 0
AFFINE = {"scale_w": real(4, seed=2), "bias": real(4, seed=3)}


def norm(x=X, affine=None, **attrs):
    inputs = {"X": x} | STATS | (affine or {})
    # Not differentiable at a 0 that hides a slot.
    grad = [*([] if "slot_dim" in attrs else ["X"]), *(affine or {})]
    return case("data_norm", inputs, attrs, normalized, grad=grad, grad_of="Y", dtypes="float32")


test_data_norm = table(
    norm(),
    norm(HIDDEN, slot_dim=2),
    norm(affine=AFFINE, enable_scale_and_shift=True),
    norm(HIDDEN, AFFINE, enable_scale_and_shift=True, slot_dim=2),
    case("data_norm", {"X": X} | STATS, {"slot_dim": 3}, raises=ValueError, match="slot_dim must divide"),
    case("data_norm", {"X": X[:, :3]} | STATS, raises=ValueError, match="BatchSize must have shape"),
    case("data_norm", {"X": X} | STATS, {"enable_scale_and_shift": True}, raises=RuntimeError, match="scale_w"),
    case("data_norm", {"X": real(2, 4, 1)} | STATS, raises=ValueError, match="2 dimensions"),
    case("data_norm", {"X": X} | STATS, {"epsilon": 0.1}, raises=ValueError, match="epsilon"),
)


# Pseudo-gradients of the statistics, recorded from Paddle 1.8.5.
SHARES = {
    -1: ([2, 2, 2, 2], [1, 3, 8, 2], [0.8202, 3.8802, 29.3802, 18.7202]),
    2: ([1, 1, 1, 1], [1, 2, 4, 1], [0.8101, 3.2401, 14.6902, 9.3602]),
}


def test_a_hidden_slot_has_no_gradient():
    x = paddle.to_tensor(HIDDEN, stop_gradient=False)
    y, _, scales = ops.data_norm(None, None, x, *map(paddle.to_tensor, STATS.values()), slot_dim=2)
    y.sum().backward()
    want = np.repeat(scales.numpy()[None], 3, 0)
    want[1, 2:] = 0
    np.testing.assert_allclose(x.gradient(), want)


@pytest.mark.parametrize("slot_dim", SHARES)
def test_statistics_count_slots(slot_dim):
    x = paddle.to_tensor(np.array([[1, 2, 3, 4], [0, 1, 5, -2]], "float32"))
    stats = [[10] * 4, [1, 2, 3, 4], [20, 30, 10, 40]]
    stats = [paddle.to_tensor(np.array(s, "float32"), stop_gradient=False) for s in stats]
    y = ops.data_norm(None, None, x, *stats, slot_dim=slot_dim)[0]
    y.sum().backward()
    for got, want in zip(stats, SHARES[slot_dim], strict=True):
        np.testing.assert_allclose(got.gradient(), want, rtol=1e-5)


# Tags


TAGS = np.array([[1], [2], [1], [3]])
LODS = {"Ins": [[0, 2, 3, 5]], "Ins_tag": [[0, 1, 2, 4]]}


def rows(*which):
    return lambda x, tags, wanted, **a: (x[list(which)], np.ones((2, 1)), np.array([[0, 0, 2], [2, 3, 2]]))


test_filter_by_instag = table(
    case(
        "filter_by_instag",
        [real(5, 2), TAGS, np.array([1])],
        {"is_lod": True},
        rows(0, 1, 3, 4),
        lod=LODS,
        out_lod={"Out": [[0, 2, 4]], "IndexMap": [[0, 1, 2]]},
        grad="Ins",
        grad_of="Out",
        dtypes="float32 int64",
        out_dtype={"LossWeight": "float32"},
    ),
    case(
        "filter_by_instag",
        [real(3, 2, dtype="float32"), TAGS, np.array([9])],
        {"is_lod": False, "out_val_if_empty": 7},
        (np.full((1, 2), 7, "float32"), np.zeros((1, 1), "float32"), np.array([[0, 1, 1]])),
        lod={"Ins_tag": [[0, 1, 2, 4]]},
        out_lod={"Out": [[0, 1]]},
    ),
    case(
        "filter_by_instag",
        [real(2, 2), TAGS, np.array([1])],
        {"is_lod": False},
        lod={"Ins_tag": [[0, 1, 2, 4]]},
        raises=ValueError,
        match="tags of 3 instances",
    ),
    case("filter_by_instag", [real(2, 2), TAGS, np.array([1])], {"is_lod": False}, raises=ValueError, match="LoD"),
)

# Recorded from Paddle 1.8.5.
LONG = np.array([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]])
BUCKETS = [[319566783, 312120502, 722811197], [454748258, 446120472, 507464901]]

test_hash = table(
    case("hash", [LONG], {"num_hash": 3, "mod_by": 1000000007}, np.array(BUCKETS)[..., None]),
    case(
        "hash",
        [np.array([[1], [77]], "int32")],
        {"num_hash": 2, "mod_by": 10000},
        np.array([[[6897], [3218]], [[6312], [8441]]], "int32"),
        lod={"X": [[0, 2]]},
        out_lod={"Out": [[0, 2]]},
    ),
    case("hash", [LONG], {"mod_by": 0}, raises=ValueError, match="mod_by"),
    case("hash", [LONG[0]], raises=ValueError, match="2 dimensions"),
)


# Trees: 1 has the children 2 and 3, 2 has the items 4 and 5.

TREE = [[0, 0, 0, 0, 0], [0, 0, 0, 2, 3], [0, 1, 1, 4, 5], [0, 1, 1, 0, 0], [11, 2, 2, 0, 0], [12, 2, 2, 0, 0]]
TREE = np.array(TREE)
NODES = np.array([[1, 2], [0, 4]])
CHILDREN = np.array([[[2, 3], [4, 5]], [[0, 0], [0, 0]]])

test_tdm_child = table(
    case(
        "tdm_child",
        [NODES, TREE],
        {"child_nums": 2},
        (CHILDREN.astype("int32"), (CHILDREN > 3).astype("int32")),
        dtypes="int32",
    ),
    case("tdm_child", [NODES, TREE], {"child_nums": 2, "dtype": 3}, (CHILDREN, (CHILDREN > 3).astype("int64"))),
    case(
        "tdm_child", [NODES + 5, TREE], {"child_nums": 2}, raises=ValueError, match=r"nodes must be in \[0, 6\), got 6"
    ),
    case("tdm_child", [NODES, TREE], {"child_nums": 3}, raises=ValueError, match="3 children"),
)

# Leaves 0 and 1 with paths through two layers: nodes 1 to 3, and 4 to 7.
PATHS, LAYERS = np.array([[1, 5], [3, 0]]), np.array([1, 2, 3, 4, 5, 6, 7])
LAYOUT = {"neg_samples_num_list": [1, 3], "layer_offset_lod": [0, 3, 7]}


@covers("tdm_sampler")
@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("own", [True, False])
def test_samples_of_layers(seed, own):
    x, paths, layers = (paddle.to_tensor(v) for v in (np.array([[0], [1], [0]]), PATHS, LAYERS))
    attrs = LAYOUT | {"seed": seed, "output_positive": own, "dtype": 3}
    out, labels, mask = (t.numpy() for t in ops.tdm_sampler(x, paths, layers, **attrs))
    assert out.shape == labels.shape == mask.shape == (3, 4 + 2 * own)
    for leaf, nodes, label, seen in zip([0, 1, 0], out, labels, mask, strict=True):
        at = 0
        for path, low, high, count in zip(PATHS[leaf], (1, 4), (3, 7), (1, 3), strict=True):
            part = nodes[at : at + count + own]
            one = label[at : at + count + own]
            assert (seen[at : at + count + own] == (path != 0)).all()
            if path == 0:
                assert not part.any() and not one.any()
            else:
                assert len(set(part)) == len(part) and part.min() >= low and part.max() <= high
                assert (one == (part == path)).all() and (path in part) == own
            at += count + own
    if seed:
        again = ops.tdm_sampler(x, paths, layers, **attrs)[0].numpy()
        np.testing.assert_array_equal(out, again)


test_tdm_sampler = table(
    case(
        "tdm_sampler", [np.array([[2]]), PATHS, LAYERS], LAYOUT, raises=ValueError, match=r"leaves must be in \[0, 2\)"
    ),
    case(
        "tdm_sampler",
        [np.array([[0]]), PATHS, LAYERS],
        LAYOUT | {"neg_samples_num_list": [3, 3]},
        raises=ValueError,
        match="layer 0 has 3 nodes",
    ),
    case("tdm_sampler", [np.array([[0]]), PATHS, LAYERS * 0 + 1], LAYOUT, raises=ValueError, match="others"),
    case("tdm_sampler", [np.array([[0]]), PATHS, LAYERS[:6]], LAYOUT, raises=ValueError, match="Layer"),
)


# Samples


@covers("shuffle_batch")
def test_rows_in_another_order():
    x = paddle.to_tensor(np.arange(24, dtype="float32").reshape(4, 3, 2), stop_gradient=False)
    out, places, seed = ops.shuffle_batch(x, paddle.to_tensor(np.array([7])))
    flat, moved, places = x.numpy().reshape(12, 2), out.numpy().reshape(12, 2), places.numpy()
    assert sorted(places) == list(range(12)) and (places != np.arange(12)).all()
    np.testing.assert_array_equal(moved[places], flat)
    assert seed.numpy() == 7 * 16807
    weight = np.random.rand(4, 3, 2).astype("float32")
    (out * paddle.to_tensor(weight)).sum().backward()
    np.testing.assert_array_equal(x.gradient().reshape(12, 2), weight.reshape(12, 2)[places])
    with pytest.raises(ValueError, match="Seed"):
        ops.shuffle_batch(x, x)


@covers("gaussian_random_batch_size_like")
def test_normal_numbers_for_a_batch():
    like = paddle.zeros([3, 2])
    a = ops.gaussian_random_batch_size_like(like, shape=[-1, 500], seed=5, mean=2.0, std=0.5)
    b = ops.gaussian_random(shape=[3, 500], seed=5, mean=2.0, std=0.5)
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    with pytest.raises(ValueError, match="input_dim_idx"):
        ops.gaussian_random_batch_size_like(like, shape=[-1, 5], input_dim_idx=2)


SCORES = np.array([[0.1, 0.2, 0.3, 0.4, 0.5], [1, 2, 3, 4, 5]], "float32")


@covers("sample_logits")
def test_sampled_scores():
    """Recorded from Paddle 1.8.5."""
    x = paddle.to_tensor(SCORES, stop_gradient=False)
    drawn = ops.sample_logits(x, paddle.to_tensor(np.array([[1], [3]])), num_samples=3, seed=7)
    samples, probabilities, shape, labels_shape, sampled, labels = drawn
    np.testing.assert_array_equal(samples.numpy(), [[1, 2, 4, 0], [3, 2, 4, 0]])
    want = [[0.58730626, 1.03048515, 1.68656909, -0.04890132], [4.98452568, 3.73048496, 6.18656921, 0.85109865]]
    np.testing.assert_allclose(sampled.numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(probabilities.numpy()[0, :2], [0.67888313, 0.48167526], rtol=1e-6)
    assert shape.shape == [2, 5, 0] and labels_shape.shape == [2, 1, 0] and not labels.numpy().any()
    (sampled * sampled).sum().backward()
    want = [[-0.09780265, 1.17461252, 2.0609703, 0, 3.37313818], [1.70219731, 0, 7.46096992, 9.96905135, 12.37313843]]
    np.testing.assert_allclose(x.gradient(), want, rtol=1e-5)


def test_given_samples():
    samples = np.array([[1, 1, 2], [3, 0, 3]])
    chances = np.array([[0.5, 0.25, 0.0], [0.5, 0.25, 1.0]], "float32")
    attrs = {"use_customized_samples": True, "num_samples": 2}
    labels = paddle.to_tensor(samples[:, :1])
    given = paddle.to_tensor(samples), paddle.to_tensor(chances)
    got = ops.sample_logits(paddle.to_tensor(SCORES), labels, *given, **attrs)[4].numpy()
    taken = np.take_along_axis(SCORES, samples, 1) - np.log(np.maximum(chances, 1e-45))
    np.testing.assert_allclose(got[:, 0], taken[:, 0], rtol=1e-6)
    assert (got[[0, 1], [1, 2]] <= -0.9e20).all() and got[0, 2] >= 0.9e20
    kept = ops.sample_logits(paddle.to_tensor(SCORES), labels, *given, remove_accidental_hits=False, **attrs)[4].numpy()
    np.testing.assert_allclose(kept[1], taken[1], rtol=1e-6)


test_sample_logits = table(
    case("sample_logits", [SCORES, np.array([[5], [3]])], {"num_samples": 2}, raises=ValueError, match=r"in \[0, 5\)"),
    case("sample_logits", [SCORES, np.array([[1], [3]])], {"num_samples": 6}, raises=ValueError, match="num_samples"),
    case("sample_logits", [SCORES, ints(3, 1, low=0)], {"num_samples": 2}, raises=ValueError, match="as many rows"),
)
