"""bce_loss, log_loss, kldiv_loss, nll_loss."""

import numpy as np
from case import case, ints, real, table

P = real(3, 4, low=0.05, high=0.95)
Y = real(3, 4, low=0, high=1, seed=1)


def bce(x, y):
    return -(y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log(1 - x), -100))


test_bce = table(
    case("bce_loss", [P, Y], expected=bce, grad="X", dtypes="float16 float32"),
    case("bce_loss", [np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])], expected=bce, dtypes="float32"),
    case("bce_loss", [real(60, 300, low=0.1, high=0.9), real(60, 300, low=0, high=1)], expected=bce, dtypes="float32"),
    case("bce_loss", [real(0, 4), real(0, 4)], expected=bce),
    case("bce_loss", [P + 1, Y], raises=ValueError, match="probabilities"),
    case("bce_loss", [P * np.nan, Y], raises=ValueError, match="probabilities"),
    case("bce_loss", [P, real(3, 5)], raises=ValueError, match="same shape"),
)


def log_loss(x, y, epsilon):
    e = float(np.float32(epsilon))
    return -y * np.log(x + e) - (1 - y) * np.log(1 - x + e)


COLUMN = [real(5, 1, low=0.05, high=0.95), real(5, 1, low=0, high=1, seed=1)]
test_log_loss = table(
    case("log_loss", COLUMN, {"epsilon": 1e-4}, log_loss, grad="Predicted", dtypes="float16 float32"),
    case("log_loss", [P, Y], {"epsilon": 1e-4}, raises=ValueError, match=r"\[N, 1\]"),
    case("log_loss", [COLUMN[0], real(4, 1)], {"epsilon": 1e-4}, raises=ValueError, match="same shape"),
)


def kldiv(x, t, reduction="mean"):
    loss = np.where(t > 0, t * (np.log(np.where(t > 0, t, 1)) - x), 0)
    if reduction == "none":
        return loss
    by = {"sum": 1, "mean": loss.size, "batchmean": len(loss)}[reduction]
    return np.array([loss.sum() / by])


TARGET = np.where(real(3, 4, seed=2) < -0.8, 0, real(3, 4, low=0.1, high=1, seed=3))
test_kldiv = table(
    *(
        case("kldiv_loss", [real(3, 4), TARGET], {"reduction": r}, kldiv, grad="X", dtypes="float32")
        for r in ("none", "mean", "sum", "batchmean")
    ),
    case("kldiv_loss", [real(2, 3, 4, 5), real(2, 3, 4, 5, low=0, high=1)], expected=kldiv, grad="X", dtypes="float16"),
    case("kldiv_loss", [real(3, 4), TARGET], {"reduction": "max"}, raises=ValueError, match="reduction"),
    case("kldiv_loss", [real(3, 4), real(4, 4)], raises=ValueError, match="same shape"),
)


def nll(x, label, weight=None, ignore_index=-100, reduction="mean"):
    x = np.moveaxis(x, 1, -1)
    label = label.reshape(x.shape[:-1])
    kept = np.where(label == ignore_index, 0, label)
    w = np.ones(x.shape[-1]) if weight is None else weight
    w = np.where(label == ignore_index, 0, w[kept])
    loss = -np.take_along_axis(x, kept[..., None], -1)[..., 0] * w
    if reduction == "none":
        return loss, np.zeros(1)
    return np.array([loss.sum() / (w.sum() if reduction == "mean" and w.sum() else 1)]), np.array([w.sum()])


CLASSES = ints(6, low=0, high=4)
MAP = ints(2, 3, 5, low=0, high=4)
WEIGHT = real(4, low=0.5, high=2, seed=4)


def nlls(x, label, weight=None, dtypes="float32", **attrs):
    return case("nll_loss", [x, label, weight], attrs, nll, grad="X", grad_of="Out", dtypes=dtypes)


test_nll = table(
    *(nlls(real(6, 4), CLASSES, w, reduction=r) for w in (None, WEIGHT) for r in ("none", "mean", "sum")),
    *(nlls(real(2, 4, 3, 5), MAP, w, reduction=r) for w in (None, WEIGHT) for r in ("none", "mean", "sum")),
    nlls(real(6, 4), CLASSES, WEIGHT, ignore_index=int(CLASSES[1])),
    nlls(real(6, 4), CLASSES.astype("int32")),
    nlls(real(6, 4), CLASSES[:, None], dtypes="float16"),
    nlls(real(2, 4), np.array([7, 7]), ignore_index=7),
    case("nll_loss", [real(6, 4), CLASSES + 4], raises=ValueError, match="classes from 0 to below 4"),
    case("nll_loss", [real(6, 4), ints(5, low=0, high=4)], raises=ValueError, match="Label"),
    case("nll_loss", [real(6, 4, 2), CLASSES], raises=ValueError, match="2 or 4 dimensions"),
    case("nll_loss", [real(6, 4), CLASSES, real(5)], raises=ValueError, match="Weight"),
    case("nll_loss", [real(6, 4), CLASSES], {"reduction": "max"}, raises=ValueError, match="reduction"),
)
