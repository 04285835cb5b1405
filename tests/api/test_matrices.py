"""`paddle.linalg` of Paddle 2.1 to 2.6: values against numpy's, the same in a Program, gradients against finite
differences."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

L = paddle.linalg
R = np.random.RandomState(3)
SQUARE = R.randn(3, 3) + 2 * np.eye(3)
BATCH = R.randn(2, 3, 3) + 2 * np.eye(3)
TALL = R.randn(4, 3)
WIDE = R.randn(3, 4)
SYMMETRIC = SQUARE + SQUARE.T
SPD = SQUARE @ SQUARE.T + np.eye(3)
LOWER = np.linalg.cholesky(SPD)
HERMITIAN = (R.randn(3, 3) + 1j * R.randn(3, 3)) @ np.eye(3)
HERMITIAN = HERMITIAN + HERMITIAN.conj().T


def absolute(x):
    """In a Program too, whose abs takes no complex numbers."""
    if "COMPLEX" in str(x.dtype):
        return paddle.sqrt(paddle.real(x) ** 2 + paddle.imag(x) ** 2)
    return paddle.abs(x)


#: name, function of Tensors whose result does not depend on signs of vectors, its numpy value, inputs
CASES = [
    ("svd s", lambda x: L.svd(x)[1], lambda x: np.linalg.svd(x)[1], (TALL,)),
    ("svd s batch", lambda x: L.svd(x)[1], lambda x: np.linalg.svd(x)[1], (BATCH,)),
    ("svd u", lambda x: absolute(L.svd(x)[0]), lambda x: np.abs(np.linalg.svd(x, False)[0]), (TALL,)),
    ("svd vh", lambda x: absolute(L.svd(x)[2]), lambda x: np.abs(np.linalg.svd(x, False)[2]), (WIDE,)),
    ("svd square", lambda x: absolute(L.svd(x)[0]) * absolute(L.svd(x)[2]), None, (BATCH,)),
    ("qr q", lambda x: L.qr(x)[0], lambda x: np.linalg.qr(x)[0], (TALL,)),
    ("qr r", lambda x: L.qr(x)[1], lambda x: np.linalg.qr(x)[1], (TALL,)),
    ("qr wide", lambda x: paddle.concat([absolute(v) for v in L.qr(x)], 1), None, (WIDE,)),
    ("qr square", lambda x: paddle.matmul(L.qr(x)[1], L.qr(x)[0]), None, (SQUARE,)),
    ("eigh w", lambda x: L.eigh(x + x.T)[0], lambda x: np.linalg.eigvalsh(x + x.T), (SQUARE,)),
    ("eigh v", lambda x: absolute(L.eigh(x + x.T)[1]), lambda x: np.abs(np.linalg.eigh(x + x.T)[1]), (SQUARE,)),
    ("eigvalsh", lambda x: L.eigvalsh(x + x.T, "U"), lambda x: np.linalg.eigvalsh(x + x.T), (SQUARE,)),
    ("eig", lambda x: paddle.real(L.eig(x)[0]), lambda x: np.linalg.eig(x)[0].real, (SYMMETRIC + 0.1 * SQUARE,)),
    ("eig v", lambda x: absolute(L.eig(x)[1]), lambda x: np.abs(np.linalg.eig(x)[1]), (SYMMETRIC + 0.1 * SQUARE,)),
    ("eigvals", lambda x: absolute(L.eigvals(x)), lambda x: np.abs(np.linalg.eigvals(x)), (SQUARE - SQUARE.T + 1,)),
    ("det", L.det, lambda x: [np.linalg.det(x)], (SQUARE,)),
    ("det batch", L.det, np.linalg.det, (BATCH,)),
    ("det singular", L.det, lambda x: [0.0], (np.outer([1.0, 2.0], [3.0, 4.0]),)),
    ("slogdet", L.slogdet, lambda x: np.array(np.linalg.slogdet(x)), (BATCH,)),
    ("solve", L.solve, np.linalg.solve, (SQUARE, TALL[:3])),
    ("solve vector", L.solve, np.linalg.solve, (SQUARE, TALL[0])),
    ("solve vector broadcast", L.solve, lambda x, y: np.linalg.inv(x) @ y, (BATCH, TALL[0])),
    ("solve broadcast", L.solve, lambda x, y: np.linalg.inv(x) @ y, (BATCH, TALL[:3])),
    ("triangular", L.triangular_solve, lambda x, y: np.linalg.solve(np.triu(x), y), (SQUARE, TALL[:3])),
    (
        "triangular lower",
        lambda x, y: L.triangular_solve(x, y, upper=False, transpose=True, unitriangular=True),
        lambda x, y: np.linalg.solve((np.tril(x, -1) + np.eye(3)).T, y),
        (SQUARE, TALL[:3]),
    ),
    ("cholesky_solve", lambda x, y: L.cholesky_solve(x, y), lambda x, y: np.linalg.solve(SPD, x), (TALL[:3], LOWER)),
    (
        "cholesky_solve upper",
        lambda x, y: L.cholesky_solve(x, y, upper=True),
        lambda x, y: np.linalg.solve(SPD, x),
        (TALL[:3], LOWER.T.copy()),
    ),
    ("pinv", L.pinv, np.linalg.pinv, (TALL,)),
    ("pinv wide", L.pinv, np.linalg.pinv, (np.stack([WIDE, WIDE * 2]),)),
    ("lstsq", lambda x, y: L.lstsq(x, y)[0], lambda x, y: np.linalg.lstsq(x, y, None)[0], (TALL, WIDE.T[:, :2].copy())),
    ("lstsq wide", lambda x, y: L.lstsq(x, y)[0], lambda x, y: np.linalg.lstsq(x, y, None)[0], (WIDE, SQUARE)),
    ("lu", lambda x: L.lu(x)[0], None, (SQUARE,)),
    ("lu tall", lambda x: L.lu(x)[0], None, (np.stack([TALL, TALL[::-1]]),)),
    ("lu wide", lambda x: L.lu(x)[0], None, (WIDE,)),
    (
        "lu_unpack",
        lambda x: paddle.matmul(*[paddle.sin(v) for v in L.lu_unpack(*L.lu(x))[1:]]),
        None,
        (TALL,),
    ),
    ("householder_product", L.householder_product, None, (TALL, TALL[0, :3])),
    *(
        (f"cond {p}", lambda x, p=p: L.cond(x, p), lambda x, p=p: [np.linalg.cond(x, p)], (SQUARE,))
        for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")
    ),
    ("pca_lowrank", lambda x: L.pca_lowrank(x, 2)[1], lambda x: np.linalg.svd(x - x.mean(0))[1][:2], (TALL,)),
]
NAMES = [case[0] for case in CASES]


def in_a_program(function, inputs):
    """The value, and the gradients of its sum, from a Program."""
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            feeds = []
            for i, x in enumerate(inputs):
                var = paddle.static.data(f"x{i}", list(x.shape), str(x.dtype))
                var.stop_gradient = False
                feeds.append(var)
            out = function(*feeds)
            total = paddle.sum(out)
            grads = paddle.static.gradients([total], feeds)
            exe = paddle.static.Executor()
            shape = list(out.shape)
            got = exe.run(main, feed={f"x{i}": x for i, x in enumerate(inputs)}, fetch_list=[out, *grads])
        assert list(got[0].shape) == shape
        return got[0], got[1:]
    finally:
        paddle.disable_static()


@pytest.mark.parametrize(("name", "function", "want", "inputs"), CASES, ids=NAMES)
def test_values_and_gradients(name, function, want, inputs):
    tensors = [paddle.to_tensor(x, stop_gradient=False) for x in inputs]
    out = function(*tensors)
    if want is not None:
        np.testing.assert_allclose(out.numpy(), want(*inputs), rtol=1e-8, atol=1e-10)
    paddle.sum(out).backward()
    value, grads = in_a_program(function, inputs)
    np.testing.assert_allclose(value, out.numpy(), rtol=1e-10)
    for i, (x, tensor, grad) in enumerate(zip(inputs, tensors, grads, strict=True)):
        np.testing.assert_allclose(grad, tensor.grad, rtol=1e-8, atol=1e-10)
        numeric = np.zeros_like(x)
        for at in np.ndindex(*x.shape):
            sums = []
            for step in (1e-6, -1e-6):
                moved = [np.array(v) for v in inputs]
                moved[i][at] += step
                sums.append(paddle.sum(function(*map(paddle.to_tensor, moved))).item())
            numeric[at] = (sums[0] - sums[1]) / 2e-6
        np.testing.assert_allclose(tensor.grad, numeric, rtol=2e-5, atol=2e-6)


def test_shapes_of_modes():
    x = paddle.to_tensor(TALL)
    assert [v.shape for v in L.svd(x, True)] == [[4, 4], [3], [3, 3]]
    assert [v.shape for v in L.qr(x, "complete")] == [[4, 4], [4, 3]]
    assert L.qr(x, "r").shape == [3, 3]
    solution, residuals, rank, values = L.lstsq(x, paddle.to_tensor(TALL[:, :1] * 2 + 1))
    assert solution.shape == [3, 1] and rank.item() == 3 and values.shape == [3]
    np.testing.assert_allclose(residuals.numpy(), np.linalg.lstsq(TALL, TALL[:, :1] * 2 + 1, None)[1])
    packed, pivots, infos = L.lu(paddle.to_tensor(BATCH), get_infos=True)
    assert pivots.shape == [2, 3] and infos.numpy().tolist() == [0, 0]
    p, lower, upper = L.lu_unpack(packed, pivots)
    np.testing.assert_allclose((p @ lower @ upper).numpy(), BATCH)
    assert L.lu(paddle.zeros([2, 2]), get_infos=True)[2].item() == 1


def test_rank():
    x = np.diag([3.0, 1.0, 0.0])
    assert L.matrix_rank(paddle.to_tensor(x)).item() == 2
    assert L.matrix_rank(paddle.to_tensor(x), tol=2.0, hermitian=True).item() == 1
    assert L.matrix_rank(paddle.to_tensor(np.stack([x, x + 1])), paddle.to_tensor([0.5, 9.0])).tolist() == [2, 0]


def test_complex_hermitian():
    w, v = L.eigh(paddle.to_tensor(HERMITIAN))
    np.testing.assert_allclose((v.numpy() * w.numpy()) @ v.numpy().conj().T, HERMITIAN, atol=1e-10)
    assert w.dtype == paddle.float64 and v.dtype == paddle.complex128


def test_to_static():
    @paddle.jit.to_static
    def f(x):
        return L.det(x) * L.slogdet(x)[1]

    x = paddle.to_tensor(SQUARE, stop_gradient=False)
    out = f(x)
    det = np.linalg.det(SQUARE)
    np.testing.assert_allclose(out.numpy(), [det * np.log(abs(det))])
    out.backward()
    np.testing.assert_allclose(x.grad, det * (np.log(abs(det)) + 1) * np.linalg.inv(SQUARE).T)


def test_errors():
    x = paddle.to_tensor(TALL)
    for call, kind, text in (
        (lambda: L.det(x), ValueError, "det: x must be square"),
        (lambda: L.svd(paddle.ones([3])), ValueError, "svd: x must have at least 2"),
        (lambda: L.qr(x, "all"), ValueError, "qr: mode must be"),
        (lambda: L.eigh(x.astype("int32")), TypeError, None),
        (lambda: L.solve(paddle.ones([2, 2]), paddle.ones([3, 1])), ValueError, "solve: y must have 2 rows"),
        (lambda: L.solve(paddle.ones([2, 2, 2]), paddle.ones([3, 2, 1])), ValueError, "cannot be broadcast"),
        (lambda: L.solve(paddle.zeros([2, 2]), paddle.ones([2, 1])), np.linalg.LinAlgError, "Singular"),
        (lambda: L.cond(paddle.ones([2, 2]), 3), ValueError, "cond: p must be"),
        (lambda: L.lu(x, pivot=False), ValueError, "lu: pivot"),
        (lambda: L.lstsq(x, x, driver="x"), ValueError, "lstsq: driver"),
    ):
        with pytest.raises((kind, ValueError) if text is None else kind, match=text):
            call()


def test_methods():
    x = paddle.to_tensor(SQUARE)
    assert x.pinv().shape == [3, 3] and x.cond().shape == [1] and len(x.qr()) == 2 and x.eigvalsh().shape == [3]
    np.testing.assert_allclose(x.solve(paddle.to_tensor(TALL[0])).numpy(), np.linalg.solve(SQUARE, TALL[0]))
