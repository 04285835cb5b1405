"""hinge_loss, modified_huber_loss, rank_loss, margin_rank_loss."""

import numpy as np
from case import case, real, table

X = real(6, 1) * 2
BITS = np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])


def hinge(x, y):
    return np.maximum(1 - x * (2 * y - 1), 0)


def modified(x, y):
    v = x * (2 * y - 1)
    return v, np.where(v < -1, -4 * v, np.maximum(1 - v, 0) ** 2)


def rank(label, left, right):
    return np.log1p(np.exp(left - right)) - label * (left - right)


def margin(x1, x2, label, margin=0.0):
    out = np.maximum(-label * (x1 - x2) + float(np.float32(margin)), 0)
    return (out > 0).astype(float), out


PAIR = [X, real(6, 1, seed=1)]
SIGNS = 2 * BITS - 1
test_margin = table(
    case("hinge_loss", [X, BITS], expected=hinge, grad="Logits", dtypes="float16 float32"),
    case("hinge_loss", [real(6, 2), real(6, 2)], raises=ValueError, match=r"\[N, 1\]"),
    case("hinge_loss", [X, BITS[:5]], raises=ValueError, match="same shape"),
    case("modified_huber_loss", [X, BITS], expected=modified, grad="X", grad_of="Out", dtypes="float16 float32"),
    case("modified_huber_loss", [X, X], raises=ValueError, match="0 and 1 only"),
    case("modified_huber_loss", [X, BITS[:5]], raises=ValueError, match="same shape"),
    case("rank_loss", [BITS, *PAIR], expected=rank, grad="Left Right", dtypes="float16 float32"),
    case("rank_loss", [BITS[:, 0], X[:, 0], PAIR[1][:, 0]], expected=rank, grad="Left Right"),
    case("rank_loss", [np.array([1.0]), np.array([500.0]), np.array([-500.0])], expected=np.array([0.0])),
    case("rank_loss", [BITS[:, 0], X[:, 0], PAIR[1][:, 0]], expected=rank, grad="Left Right"),
    case("rank_loss", [BITS[:, 0], X, PAIR[1]], expected=lambda y, a, b: rank(y[:, None], a, b)[:, 0], grad="Left"),
    case("rank_loss", [BITS, X, X[:5]], raises=ValueError, match="one N"),
    case("rank_loss", [real(2, 3), real(2, 3), real(2, 3)], raises=ValueError, match=r"\[N\] or"),
    case("margin_rank_loss", [*PAIR, SIGNS], {"margin": 0.25}, margin, grad="X1 X2", grad_of="Out", dtypes="float32"),
    case("margin_rank_loss", [*PAIR, SIGNS], expected=margin, grad="X1 X2", grad_of="Out"),
    case("margin_rank_loss", [*PAIR, SIGNS[:5]], raises=ValueError, match="same shape"),
    case("margin_rank_loss", [real(6), real(6), real(6)], raises=ValueError, match=r"\[N, 1\]"),
)
