"""huber_loss, smooth_l1_loss, squared_l2_distance, center_loss."""

import numpy as np
from case import case, ints, real, table

X, Y = real(4, 5), real(4, 5, seed=1)


def huber(x, y, delta):
    r = y - x
    d = float(np.float32(delta))
    return r, np.where(np.abs(r) <= d, 0.5 * r * r, d * (np.abs(r) - 0.5 * d))


test_huber = table(
    case("huber_loss", [X, Y], {"delta": 0.5}, huber, grad="X Y", grad_of="Out", dtypes="float16 float32"),
    case("huber_loss", [real(90, 300), real(90, 300, seed=1)], {"delta": 1.0}, huber, dtypes="float32"),
    case("huber_loss", [X, real(4, 4)], {"delta": 0.5}, raises=ValueError, match="same shape"),
)


def smooth(x, y, inside=None, outside=None, sigma=1.0):
    s = float(np.float32(sigma)) ** 2
    d = (x - y) * (1 if inside is None else inside)
    loss = np.where(np.abs(d) < 1 / s, 0.5 * d * d * s, np.abs(d) - 0.5 / s) * (1 if outside is None else outside)
    return d, loss.reshape(len(x), -1).sum(1, keepdims=True)


WEIGHTS = [real(4, 5, seed=2), real(4, 5, seed=3)]
test_smooth = table(
    case("smooth_l1_loss", [X, Y], expected=smooth, grad="X Y", grad_of="Out", dtypes="float32"),
    case("smooth_l1_loss", [X, Y, *WEIGHTS], {"sigma": 2.0}, smooth, grad="X Y", grad_of="Out", dtypes="float32"),
    case("smooth_l1_loss", [real(2, 3, 4), real(2, 3, 4, seed=1)], {"sigma": 3.0}, smooth, grad="X", grad_of="Out"),
    case("smooth_l1_loss", [real(4), real(4)], raises=ValueError, match="2 dimensions"),
    case("smooth_l1_loss", [X, Y, WEIGHTS[0]], raises=ValueError, match="together"),
    case("smooth_l1_loss", [X, Y, WEIGHTS[0], real(4, 4)], raises=ValueError, match="OutsideWeight"),
    case("smooth_l1_loss", [X, real(4, 4)], raises=ValueError, match="same shape"),
)


def distance(x, y):
    d = (x - y).reshape(len(x), -1)
    return d, (d * d).sum(1, keepdims=True)


test_distance = table(
    case("squared_l2_distance", [X, Y], expected=distance, grad="X Y", grad_of="Out", dtypes="float32"),
    case("squared_l2_distance", [X, real(1, 5, seed=1)], expected=distance, grad="X Y", grad_of="Out"),
    case("squared_l2_distance", [real(2, 3, 4), real(2, 3, 4, seed=1)], expected=distance, grad="X Y", grad_of="Out"),
    case("squared_l2_distance", [X, real(3, 5)], raises=ValueError, match="rows"),
    case("squared_l2_distance", [X, real(4, 4)], raises=ValueError, match="rows"),
    case("squared_l2_distance", [real(4), real(4)], raises=ValueError, match="2 or more"),
)


def center(x, label, centers, rate, cluster_num, need_update):
    d = x.reshape(len(x), -1) - centers[label.ravel()]
    new = centers.copy()
    if need_update:
        for c in range(cluster_num):
            own = d[label.ravel() == c]
            new[c] += rate[0] * own.sum(0) / (1 + len(own))
    return new, d, (d * d).sum(1, keepdims=True) / 2


LABEL = np.array([[1], [0], [1], [2]])
RATE = np.array([0.1])


def centers(label=LABEL, update=True, **more):
    return case(
        "center_loss",
        [X, label, real(3, 5, seed=2), RATE],
        {"cluster_num": 3, "need_update": update},
        center,
        grad="X",
        grad_of="Loss",
        dtypes="float32",
        **more,
    )


ATTRS = {"cluster_num": 3, "need_update": True}
test_center = table(
    centers(),
    centers(update=False),
    centers(LABEL[:, 0]),
    case("center_loss", [X, LABEL + 1, real(3, 5), RATE], ATTRS, raises=ValueError, match="classes"),
    case("center_loss", [X, LABEL, real(4, 5), RATE], ATTRS, raises=ValueError, match="cluster_num"),
    case("center_loss", [X, LABEL, real(3, 4), RATE], ATTRS, raises=ValueError, match="wide"),
    case("center_loss", [X, ints(3, 1, low=0, high=3), real(3, 5), RATE], ATTRS, raises=ValueError, match="Label"),
)
