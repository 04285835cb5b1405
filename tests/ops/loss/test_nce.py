"""Noise contrastive estimation (nce)."""

import numpy as np
import pytest
from case import case, covers, ints, real, table, to_eager
from paddle import _core


def probability(classes, total, sampler, probs):
    if sampler == 1:
        return np.log((classes + 2) / (classes + 1)) / np.log(total)
    return np.full(classes.shape, 1 / total) if sampler == 0 else probs[classes]


def nce(x, label, w, *more, num_total_classes, num_neg_samples, custom_neg_classes, sampler=0, is_sparse=False):
    more = list(more)
    probs = more[-3] if sampler == 2 else None
    more = more[:-3] if sampler == 2 else more
    bias = more.pop(0).ravel() if more and more[0].size == len(w) else np.zeros(len(w))
    weight = more.pop(0).ravel() if more else np.ones(len(x))
    labels = np.concatenate([label, np.tile(custom_neg_classes, (len(x), 1))], 1)
    o = 1 / (1 + np.exp(-(np.einsum("nd,nkd->nk", x, w[labels]) + bias[labels])))
    b = probability(labels, num_total_classes, sampler, probs) * num_neg_samples
    own = np.arange(labels.shape[1]) < label.shape[1]
    cost = -np.log(np.where(own, o / (o + b), b / (o + b)))
    return (weight[:, None] * cost).sum(1, keepdims=True), o, labels


X, W = real(3, 4), real(7, 4, seed=1)
LABEL = ints(3, 2, low=0, high=7)
BIAS, WEIGHT = real(7, 1, seed=2), real(3, 1, low=0.5, high=2, seed=3)
PROBS = np.full(7, 1 / 7, "float32")
CUSTOM = [PROBS, np.full(7, -1, "int32"), np.ones(7, "float32")]
ATTRS = {"num_total_classes": 7, "num_neg_samples": 3, "custom_neg_classes": [0, 4, 4]}
KINDS = {"SampleLabels": "int64"}


def nces(*more, grad="Input Weight", dtypes="float32", rows=(), **attrs):
    return case(
        "nce",
        [X, LABEL, W, *more],
        {**ATTRS, **attrs},
        nce,
        grad=grad,
        grad_of="Cost",
        dtypes=dtypes,
        rows_grad=rows,
        out_dtype=KINDS,
        tol=2e-4 if dtypes else 1e-6,
    )


BAD = {"num_total_classes": 7, "num_neg_samples": 2}
test_nce = table(
    nces(),
    nces(BIAS, WEIGHT, grad="Input Weight Bias"),
    nces(BIAS, sampler=1, grad="Input Bias", dtypes=""),
    nces(is_sparse=True, rows="Weight"),
    case("nce", [X, LABEL + 7, W], ATTRS, raises=ValueError, match="labels must be classes"),
    case("nce", [X, LABEL, W[:6]], ATTRS, raises=ValueError, match="Weight"),
    case("nce", [X, LABEL[:2], W], ATTRS, raises=ValueError, match="Label"),
    case("nce", [X, LABEL, W, BIAS[:3]], ATTRS, raises=ValueError, match="Bias"),
    case("nce", [X, LABEL, W], {**ATTRS, "num_neg_samples": 2}, raises=ValueError, match="num_neg_samples"),
    case("nce", [X, LABEL, W], {**BAD, "sampler": 3}, raises=ValueError, match="sampler"),
    case("nce", [X, LABEL, W], {**BAD, "sampler": 2}, raises=RuntimeError, match="CustomDistProbs"),
    case("nce", [X, LABEL, W], {**BAD, "remote_prefetch": True}, raises=NotImplementedError, match="parameter server"),
)


@covers("nce")
@pytest.mark.parametrize("sampler", [0, 1, 2])
def test_samples(sampler: int) -> None:
    """Classes are drawn with the probabilities that the cost assumes; a seed repeats them."""
    total, drawn = 5, 4000
    probs = np.array([0.4, 0.1, 0.2, 0.2, 0.1], "float32")
    # alias tables: 0.1 * 5 = 0.5 of the second and the last entry is its own, the rest belongs to the first
    custom = [probs, np.array([-1, 0, -1, -1, 0], "int32"), np.array([1, 0.5, 1, 1, 0.5], "float32")]
    ins = [np.zeros((1, 2), "float32"), np.array([[3]]), np.zeros((total, 2), "float32"), None, None]
    ins = [None if v is None else to_eager(v) for v in (ins + custom if sampler == 2 else ins)]
    attrs = {"num_total_classes": total, "num_neg_samples": drawn, "sampler": sampler, "seed": 11}
    cost, _, labels = _core.ops.nce(*ins, **attrs)
    found = np.bincount(labels.numpy()[0, 1:], minlength=total) / drawn
    want = probability(np.arange(total), total, sampler, probs)
    if sampler == 1:  # as in Paddle: one class less than there are
        want = want[:-1] / want[:-1].sum()
        assert found[-1] == 0
        found = found[:-1]
    np.testing.assert_allclose(found, want, atol=0.05 if sampler == 1 else 0.03)
    np.testing.assert_array_equal(labels.numpy(), _core.ops.nce(*ins, **attrs)[2].numpy())
    assert np.isfinite(cost.numpy()).all()
