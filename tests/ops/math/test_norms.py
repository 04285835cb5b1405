"""Norms and logsumexp: p_norm, frobenius_norm, logsumexp, dist, l1_norm, squared_l2_norm."""

import numpy as np
from case import apart, case, ints, real, table

X = apart(2, 3, 4) + 0.02  # distinct absolute values


def p_norm(x, porder=2.0, axis=-1, keepdim=False, asvector=False, epsilon=1e-12):
    if asvector:
        out = np.linalg.norm(x.reshape(-1), porder)
        return np.reshape(out, [1] * x.ndim if keepdim else [1])
    return np.linalg.norm(x, porder, axis, keepdim)


test_p_norm = table(
    case("p_norm", [X], {}, p_norm, grad="X", dtypes="float32"),
    *[case("p_norm", [X], {"porder": p, "axis": 1}, p_norm, grad="X") for p in (1.0, 2.0, 3.0, 2.5, np.inf, -np.inf)],
    case("p_norm", [X], {"porder": 0.0, "axis": 0}, lambda x, porder, axis: (x != 0).sum(0) * 1.0, grad="X"),
    case("p_norm", [np.float64([[0, 1, 0], [2, 0, 0]])], {"porder": 0.0}, lambda x, porder: (x != 0).sum(1) * 1.0),
    case("p_norm", [np.abs(X) + 0.1], {"porder": -1.5, "axis": -2}, p_norm, grad="X", tol=1e-7),
    case("p_norm", [X], {"porder": 3.0, "axis": 0, "keepdim": True}, p_norm, grad="X"),
    case("p_norm", [X], {"asvector": True}, p_norm, grad="X"),
    case("p_norm", [X], {"asvector": True, "keepdim": True, "porder": 1.0}, p_norm, grad="X"),
    case("p_norm", [real(4)], {"axis": 0}, p_norm, grad="X"),
    *[case("p_norm", [real(90, 11, 70)], {"porder": 2.0, "axis": axis}, p_norm, tol=1e-6) for axis in (0, 1, 2)],
    case("p_norm", [real(0, 3)], {"axis": 0}, p_norm),
    case("p_norm", [X], {"axis": 3}, raises=ValueError),
    case("p_norm", [ints(3)], {}, raises=NotImplementedError),
)


def frobenius(x, dim=(0,), keep_dim=False, reduce_all=False):
    out = np.sqrt((x * x).sum(None if reduce_all else tuple(dim), keepdims=keep_dim))
    return out if out.ndim else out.reshape(1)


test_frobenius_norm = table(
    case("frobenius_norm", [X], {"dim": [1, 2]}, frobenius, grad="X", dtypes="float32 float16"),
    case("frobenius_norm", [X], {"dim": [0, 2], "keep_dim": True}, frobenius, grad="X"),
    case("frobenius_norm", [X], {"reduce_all": True}, frobenius, grad="X"),
    case("frobenius_norm", [X], {"dim": [-1]}, frobenius, grad="X"),
    case("frobenius_norm", [X], {"dim": [3]}, raises=ValueError),
    case("frobenius_norm", [ints(3)], {}, raises=NotImplementedError),
)


def logsumexp(x, axis=(0,), keepdim=False, reduce_all=False):
    every = reduce_all or len(axis) == x.ndim
    out = np.log(np.exp(x).sum(None if every else tuple(axis), keepdims=keepdim))
    return out if out.ndim else out.reshape(1)


test_logsumexp = table(
    case("logsumexp", [X], {"axis": [1]}, logsumexp, grad="X", dtypes="float32 float16"),
    case("logsumexp", [X], {}, logsumexp, grad="X"),
    case("logsumexp", [X], {"axis": [-1, 0], "keepdim": True}, logsumexp, grad="X"),
    case("logsumexp", [X], {"axis": [0, 1, 2]}, logsumexp, grad="X"),
    case("logsumexp", [X], {"reduce_all": True, "keepdim": True}, logsumexp, grad="X"),
    case("logsumexp", [X[0, 0]], {}, logsumexp, grad="X"),
    case(
        "logsumexp",
        [np.float64([[1000, 1001], [-1000, -1000]])],
        {"axis": [1]},
        np.float64([1001 + np.log1p(np.exp(-1)), -1000 + np.log(2)]),
    ),
    case("logsumexp", [real(40, 3, 50)], {"axis": [0, 2]}, logsumexp),
    case("logsumexp", [X], {"axis": [3]}, raises=ValueError),
    case("logsumexp", [X], {"axis": []}, raises=ValueError),
    case("logsumexp", [ints(3)], {}, raises=NotImplementedError),
)

Y = real(3, 1, seed=5)


def dist(x, y, p=2.0):
    z = np.abs(x - y)
    special = {0.0: (z != 0).sum() * 1.0, np.inf: z.max(), -np.inf: z.min()}
    return np.reshape(special[p] if p in special else (z**p).sum() ** (1 / p), 1)


test_dist = table(
    case("dist", [X, Y], {}, dist, grad="X Y", dtypes="float32"),
    *[case("dist", [X, Y], {"p": p}, dist, grad="X Y") for p in (1.0, 3.5, np.inf, -np.inf, 0.0)],
    case("dist", [Y, X], {"p": 3.0}, dist, grad="X Y"),
    case("dist", [X, real(5)], {}, raises=RuntimeError),
    case("dist", [X, np.float32(X)], {}, raises=ValueError),
    case("dist", [real(*[1] * 7), Y], {}, raises=NotImplementedError),
    case("l1_norm", [X], {}, lambda x: np.abs(x).sum().reshape(1), grad="X", dtypes="float32"),
    case("l1_norm", [ints(3)], {}, raises=NotImplementedError),
    case("squared_l2_norm", [X], {}, lambda x: (x * x).sum().reshape(1), grad="X", dtypes="float32"),
    case("squared_l2_norm", [ints(3)], {}, raises=NotImplementedError),
)
