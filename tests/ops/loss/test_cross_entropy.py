"""Softmax and cross entropies."""

import numpy as np
from case import case, ints, real, table

SOME = "float16 float32"


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def picked(p, label, axis, ignore):
    """-log p of the labels, 0 for ignored ones."""
    kept = np.where(label == ignore, 0, label)
    return np.where(label == ignore, 0.0, -np.log(np.take_along_axis(p, kept, axis)))


def entropy(x, label, axis=-1, soft_label=False, ignore_index=-100, use_softmax=True):
    p = softmax(x, axis) if use_softmax else x
    if soft_label:
        return p, -(label * np.log(p)).sum(axis, keepdims=True)
    return p, picked(p, label, axis, ignore_index)


def entropies(x, label, dtypes=SOME, **attrs):
    return case("softmax_with_cross_entropy", [x, label], attrs, entropy, grad="Logits", grad_of="Loss", dtypes=dtypes)


PROBS = softmax(real(4, 5, seed=7))
CLASSES = ints(4, 1, low=0, high=5)

test_softmax_with_cross_entropy = table(
    entropies(real(4, 5), CLASSES),
    entropies(real(4, 5), CLASSES.astype("int32")),
    entropies(real(2, 5, 3), ints(2, 1, 3, low=0, high=5), axis=1),
    entropies(real(2, 3, 5), ints(2, 3, 1, low=0, high=5)),
    entropies(real(4, 5), CLASSES, ignore_index=int(CLASSES[1, 0])),
    entropies(real(4, 5), PROBS, soft_label=True, dtypes="float32"),
    entropies(real(2, 5, 3), softmax(real(2, 5, 3, seed=1), 1), axis=1, soft_label=True),
    entropies(PROBS, CLASSES, use_softmax=False, dtypes="float32"),
    entropies(PROBS, softmax(real(4, 5, seed=9)), use_softmax=False, soft_label=True),
    entropies(real(0, 5), ints(0, 1, low=0, high=5), dtypes=""),
    case("softmax_with_cross_entropy", [real(4, 5), CLASSES + 5], raises=IndexError),
    case("softmax_with_cross_entropy", [real(4, 5), ints(4, 2)], raises=ValueError, match="Label"),
    case("softmax_with_cross_entropy", [real(4, 5), ints(3, 1)], raises=ValueError, match="Label"),
    case("softmax_with_cross_entropy", [real(4, 5), real(4, 1)], raises=ValueError, match="integers"),
    case("softmax_with_cross_entropy", [real(4, 5), CLASSES], {"axis": 2}, raises=ValueError),
)


def plain(x, label, soft_label=False, ignore_index=-100):
    if soft_label:
        return -(label * np.log(x)).sum(-1, keepdims=True)
    if label.ndim < x.ndim:
        return picked(x, label[..., None], -1, ignore_index)[..., 0]
    return picked(x, label, -1, ignore_index)


def plain2(x, label, ignore_index=-100):
    kept = np.where(label == ignore_index, 0, label)
    match = np.where(label == ignore_index, 0.0, np.take_along_axis(x, kept, -1))
    return {"Y": plain(x, label, ignore_index=ignore_index), "MatchX": match}


test_cross_entropy = table(
    case("cross_entropy", [PROBS, CLASSES], expected=plain, grad="X", dtypes="float32"),
    case("cross_entropy", [PROBS, CLASSES[:, 0]], expected=plain, grad="X"),
    case("cross_entropy", [softmax(real(2, 3, 5)), ints(2, 3, 1, low=0, high=5)], expected=plain, grad="X"),
    case("cross_entropy", [PROBS, CLASSES], {"ignore_index": int(CLASSES[2, 0])}, plain, grad="X"),
    case("cross_entropy", [PROBS, softmax(real(4, 5))], {"soft_label": True}, plain, grad="X"),
    case("cross_entropy", [PROBS, CLASSES + 9], raises=IndexError),
    case("cross_entropy", [PROBS, ints(4, 3)], raises=ValueError, match="Label"),
    case("cross_entropy2", [PROBS, CLASSES], expected=plain2, grad="X", grad_of="Y", second=True, dtypes="float32"),
    case(
        "cross_entropy2",
        [PROBS, CLASSES],
        {"ignore_index": int(CLASSES[2, 0])},
        plain2,
        grad="X",
        grad_of="Y",
        second=True,
    ),
    case("cross_entropy2", [PROBS, CLASSES + 9], raises=IndexError),
)


def sigmoid(x, label, normalize=False, ignore_index=-100):
    loss = np.maximum(x, 0) - x * label + np.log1p(np.exp(-np.abs(x)))
    loss = np.where(label == ignore_index, 0.0, loss)
    return loss / max((label != ignore_index).sum(), 1e-5) if normalize else loss


PART = np.where(real(4, 5) > 1, -1.0, real(4, 5, low=0, high=1, seed=3))

test_sigmoid = table(
    case(
        "sigmoid_cross_entropy_with_logits",
        [real(4, 5), real(4, 5, low=0, high=1)],
        expected=sigmoid,
        grad="X",
        dtypes=SOME,
    ),
    case("sigmoid_cross_entropy_with_logits", [real(4, 5, seed=1), PART], {"ignore_index": -1}, sigmoid, grad="X"),
    case(
        "sigmoid_cross_entropy_with_logits",
        [real(4, 5, seed=1), PART],
        {"ignore_index": -1, "normalize": True},
        sigmoid,
        grad="X",
    ),
    case("sigmoid_cross_entropy_with_logits", [real(2, 3) * 200, np.ones((2, 3))], expected=sigmoid, dtypes="float32"),
    case("sigmoid_cross_entropy_with_logits", [real(4, 5), real(4, 4)], raises=ValueError, match="same shape"),
)
