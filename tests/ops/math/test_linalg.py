"""Matrix products, factorizations and inverses: bmm, mv, dot, addmm, kron, cross, cholesky, inverse."""

import numpy as np
import pytest
from case import case, complexes, covers, ints, real, table
from paddle import _core

A, B = real(3, 2, 4), real(3, 4, 5, seed=1)

test_bmm = table(
    case("bmm", [A, B], {}, np.matmul, grad="X Y", dtypes="float32 float16"),
    case("bmm", [real(1, 1, 1), real(1, 1, 1, seed=1)], {}, np.matmul, grad="X Y"),
    case("bmm", [real(0, 2, 4), real(0, 4, 5)], {}, np.matmul),
    case("bmm", [real(2, 3, 0), real(2, 0, 2)], {}, np.matmul),
    case("bmm", [A, B[:2]], {}, raises=ValueError),
    case("bmm", [A, real(3, 5, 4)], {}, raises=ValueError),
    case("bmm", [A, B[0]], {}, raises=ValueError),
    case("bmm", [A, np.float32(B)], {}, raises=ValueError),
    case("bmm", [ints(1, 2, 2), ints(1, 2, 2)], {}, raises=NotImplementedError),
)

test_mv = table(
    case("mv", [real(3, 4), real(4, seed=1)], {}, np.matmul, grad="X Vec", dtypes="float32"),
    case("mv", [real(3, 0), real(0)], {}, np.matmul),
    case("mv", [real(3, 4), real(3)], {}, raises=ValueError),
    case("mv", [A, real(4)], {}, raises=ValueError),
    case("mv", [real(3, 4), real(4, 1)], {}, raises=ValueError),
)

test_dot = table(
    case(
        "dot", [real(5), real(5, seed=1)], {}, lambda x, y: (x * y).sum(-1, keepdims=True), grad="X Y", dtypes="float32"
    ),
    case("dot", [real(3, 5), real(3, 5, seed=1)], {}, lambda x, y: (x * y).sum(-1, keepdims=True), grad="X Y"),
    case("dot", [ints(5), ints(5, seed=1)], {}, lambda x, y: (x * y).sum(-1, keepdims=True)),
    case(
        "dot", [complexes(3, 5), complexes(3, 5, seed=1)], {}, lambda x, y: (x * y).sum(-1, keepdims=True), grad="X Y"
    ),
    case("dot", [real(5), real(4)], {}, raises=RuntimeError),
    case("dot", [real(5), real(1, 5)], {}, raises=RuntimeError),
    case("dot", [A, A], {}, raises=RuntimeError),
    case("dot", [real(5), np.float32(real(5))], {}, raises=ValueError),
)


def addmm(i, x, y, Alpha=1.0, Beta=1.0):
    return np.float64(np.float32(Beta)) * i + np.float64(np.float32(Alpha)) * (x @ y)


M, N = real(2, 3), real(3, 4, seed=1)

test_addmm = table(
    case("addmm", [real(2, 4, seed=2), M, N], {}, addmm, grad="Input X Y", dtypes="float32"),
    case("addmm", [real(1, 4), M, N], {"Alpha": 0.5, "Beta": -2.0}, addmm, grad="Input X Y"),
    case("addmm", [real(2, 1), M, N], {"Beta": 0.0}, addmm, grad="Input X Y"),
    case("addmm", [real(1, 1), M, N], {"Alpha": 0.0}, addmm, grad="Input X Y"),
    case("addmm", [real(4), M, N], {}, raises=ValueError),
    case("addmm", [real(2, 3), M, N], {}, raises=ValueError),
    case("addmm", [real(2, 4), M, M], {}, raises=ValueError),
    case("addmm", [real(2, 4), real(2, 0), real(0, 4)], {}, raises=RuntimeError),
)

test_kron = table(
    case("kron", [real(2, 3), real(3, 2, seed=1)], {}, np.kron, grad="X Y", dtypes="float32 float16"),
    case("kron", [real(2), real(3, 2, 2, seed=1)], {}, np.kron, grad="X Y"),
    case("kron", [real(2, 1, 3), real(4, seed=1)], {}, np.kron, grad="X Y"),
    case("kron", [ints(2, 2), ints(3)], {}, np.kron),
    case("kron", [complexes(2, 2), complexes(2, 3, seed=1)], {}, np.kron, grad="X Y"),
    case("kron", [real(2, 2), complexes(2, 3, seed=1)], {}, np.kron, grad="X Y"),
    case("kron", [real(*[1] * 9), real(2)], {}, raises=ValueError),
)


def cross(x, y, dim=None):
    return np.cross(x, y, axis=x.shape.index(3) if dim is None else dim)


C, D = real(3, 4, 3), real(3, 4, 3, seed=1)

test_cross = table(
    case("cross", [C, D], {}, cross, grad="X Y", dtypes="float32"),
    case("cross", [C, D], {"dim": -1}, cross, grad="X Y"),
    case("cross", [ints(2, 3), ints(2, 3, seed=1)], {"dim": 1}, cross),
    case("cross", [C, D], {"dim": 1}, raises=ValueError),
    case("cross", [C, D], {"dim": 3}, raises=IndexError),
    case("cross", [C, real(3, 4)], {}, raises=ValueError),
    case("cross", [real(2, 2), real(2, 2)], {}, raises=ValueError),
)


def positive(*batch, n=3):
    x = real(*batch, n, n)
    return x @ x.swapaxes(-1, -2) + n * np.eye(n)


test_cholesky = table(
    case("cholesky", [positive()], {}, np.linalg.cholesky, dtypes="float32"),
    case("cholesky", [positive(2, 2, n=4)], {"upper": True}, lambda x, upper: np.linalg.cholesky(x).swapaxes(-1, -2)),
    case("cholesky", [np.tril(positive())], {}, lambda x: np.linalg.cholesky(x + np.tril(x, -1).T)),
    case("cholesky", [real(0, 3, 3)], {}, lambda x: x),
    case("cholesky", [-positive()], {}, raises=ValueError),
    case("cholesky", [np.full((2, 2), np.nan)], {}, raises=ValueError),
    case("cholesky", [real(2, 3)], {}, raises=ValueError),
    case("cholesky", [real(3)], {}, raises=ValueError),
)


@covers("cholesky")
@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_cholesky_are_symmetric(upper: bool) -> None:
    a, w = positive(2), real(2, 3, 3, seed=3)

    def loss(x):
        factor = np.linalg.cholesky(x)
        return float(((factor.swapaxes(-1, -2) if upper else factor) * w).sum())

    x = _core.Tensor(a)
    x.stop_gradient = False
    out = _core.ops.cholesky(x, upper=upper)
    [g] = _core.partial_grad([out], [x], [_core.Tensor(w)], [], True, False, True)
    g = g.numpy()
    np.testing.assert_allclose(g, g.swapaxes(-1, -2), rtol=1e-12)
    for b, i, j in np.ndindex(2, 3, 3):
        step = np.zeros_like(a)
        step[b, i, j] += 1e-6
        step[b, j, i] += 1e-6
        slope = (loss(a + step) - loss(a - step)) / 2e-6
        np.testing.assert_allclose(g[b, i, j] + g[b, j, i], slope, rtol=1e-6, atol=1e-8)


I3 = real(2, 3, 3) + 2 * np.eye(3)

test_inverse = table(
    case("inverse", [I3], {}, np.linalg.inv, grad="Input", dtypes="float32", tol=1e-4),
    case("inverse", [np.float64([[0, 2, 0], [0, 0, 3], [4, 1, 0]])], {}, np.linalg.inv, grad="Input"),
    case("inverse", [real(0, 2, 2)], {}, lambda x: x),
    case("inverse", [real(130, 130) + 9 * np.eye(130)], {}, np.linalg.inv, tol=1e-8),
    case("inverse", [np.ones((2, 2))], {}, raises=ValueError),
    case("inverse", [np.full((2, 2), np.nan)], {}, raises=ValueError),
    case("inverse", [real(2, 3)], {}, raises=ValueError),
    case("inverse", [real(3)], {}, raises=ValueError),
)
