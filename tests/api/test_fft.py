"""`paddle.fft`: values against numpy's, the same in a Program, gradients against finite differences."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

R = np.random.RandomState(5)
REAL = R.randn(3, 4)
ODD = R.randn(3, 5)
COMPLEX = R.randn(3, 4) + 1j * R.randn(3, 4)


def multi(function, conj=False):
    """numpy's transform over several axes of a Hermitian signal."""
    swapped = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
    if conj:
        return lambda x, s=None, axes=None, norm="backward": np.fft.irfftn(np.conj(x), s, axes, swapped[norm])
    return lambda x, s=None, axes=None, norm="backward": np.conj(np.fft.rfftn(x, s, axes, swapped[norm]))


CASES = [
    *(("fft", x, k) for x in (REAL, COMPLEX) for k in ({}, {"n": 6}, {"n": 3, "axis": 0}, {"norm": "ortho"})),
    *(("ifft", COMPLEX, k) for k in ({}, {"n": 3}, {"norm": "forward"})),
    *(("rfft", x, k) for x in (REAL, ODD) for k in ({}, {"n": 7}, {"n": 2}, {"axis": 0, "norm": "forward"})),
    *(("irfft", COMPLEX, k) for k in ({}, {"n": 5}, {"n": 4, "axis": 0}, {"n": 12, "norm": "ortho"})),
    *(("hfft", COMPLEX, k) for k in ({}, {"n": 5, "norm": "ortho"}, {"norm": "forward"})),
    *(("ihfft", REAL, k) for k in ({}, {"n": 5, "norm": "ortho"})),
    *((f"{name}fft2", x, {"s": (2, 6)}) for name, x in (("", REAL), ("i", COMPLEX), ("r", REAL), ("ir", COMPLEX))),
    *(
        (f"{name}fftn", x, {"norm": "ortho"})
        for name, x in (("", COMPLEX), ("i", COMPLEX), ("r", REAL), ("ir", COMPLEX))
    ),
    ("fftn", COMPLEX, {"s": (5,), "axes": (0,)}),
    ("hfft2", COMPLEX, {}),
    ("hfftn", COMPLEX, {"norm": "forward"}),
    ("ihfft2", REAL, {}),
    ("ihfftn", REAL, {"norm": "ortho"}),
]


def expected(name, x, keywords):
    if name in ("hfft2", "hfftn", "ihfft2", "ihfftn"):
        return multi(name, conj=name.startswith("h"))(x, **keywords)
    return getattr(np.fft, name)(x, **keywords)


def loss(out):
    """A real number with a different weight for every element."""
    n = int(np.prod(out.shape))
    weights = paddle.reshape(paddle.to_tensor(np.linspace(0.5, 2.0, n)), list(out.shape))
    if not paddle.is_complex(out):
        return paddle.sum(out * weights)
    return paddle.sum(paddle.real(out) * weights) + paddle.sum(paddle.imag(out) * weights * weights)


@pytest.mark.parametrize(("name", "x", "keywords"), CASES, ids=lambda v: v if isinstance(v, str) else None)
def test_values_and_gradients(name, x, keywords):
    function = getattr(paddle.fft, name)
    tensor = paddle.to_tensor(x, stop_gradient=False)
    out = function(tensor, **keywords)
    want = expected(name, x, keywords)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-10, atol=1e-12)
    assert out.numpy().dtype == want.dtype
    loss(out).backward()
    numeric = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        for unit in (1.0, 1j) if np.iscomplexobj(x) else (1.0,):
            ends = []
            for sign in (1, -1):
                moved = np.array(x)
                moved[at] += sign * 1e-6 * unit
                ends.append(loss(function(paddle.to_tensor(moved), **keywords)).item())
            numeric[at] += unit * (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(tensor.grad, numeric, rtol=1e-6, atol=1e-7)

    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            var = paddle.static.data("x", list(x.shape), str(x.dtype))
            var.stop_gradient = False
            made = function(var, **keywords)
            grads = paddle.static.gradients([made], [var]) if not np.iscomplexobj(want) else []
        assert list(made.shape) == list(want.shape)
        got = paddle.static.Executor().run(main, {"x": x}, [made, *grads])
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(got[0], out.numpy())
    if grads:
        other = paddle.to_tensor(x, stop_gradient=False)
        paddle.sum(function(other, **keywords)).backward()
        np.testing.assert_allclose(got[1], other.grad, atol=1e-12)


def test_types():
    assert paddle.fft.fft(paddle.ones([3])).dtype == paddle.complex64
    assert paddle.fft.rfft(paddle.ones([3], "int64")).dtype == paddle.complex64
    assert paddle.fft.irfft(paddle.ones([3], "float64")).dtype == paddle.float64
    assert paddle.fft.fftfreq(3, dtype="float64").dtype == paddle.float64


def test_round_trip():
    x = paddle.to_tensor(REAL)
    np.testing.assert_allclose(paddle.fft.irfft2(paddle.fft.rfft2(x)).numpy(), REAL)
    np.testing.assert_allclose(paddle.fft.ifftshift(paddle.fft.fftshift(x)).numpy(), REAL)
    np.testing.assert_allclose(paddle.fft.fftshift(x, 1).numpy(), np.fft.fftshift(REAL, 1))
    np.testing.assert_allclose(paddle.fft.rfftfreq(5, 2.0).numpy(), np.fft.rfftfreq(5, 2.0), rtol=1e-6)


def test_unknown_sizes_in_a_program():
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            out = paddle.fft.rfft(paddle.static.data("x", [-1, 4], "float32"))
        assert list(out.shape) == [-1, 3]
        got = paddle.static.Executor().run(main, {"x": REAL.astype("float32")}, [out])[0]
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(got, np.fft.rfft(REAL.astype("float32")), rtol=1e-5, atol=1e-6)


def test_errors():
    x = paddle.ones([2, 3])
    for call, kind, text in (
        (lambda: paddle.fft.fft(x, norm="all"), ValueError, "fft: norm must be"),
        (lambda: paddle.fft.fft(x, 0), ValueError, "fft: the sizes must be positive"),
        (lambda: paddle.fft.fft(x, axis=2), ValueError, r"fft: axes must lie in \[-2, 2\)"),
        (lambda: paddle.fft.fftn(x, axes=(0, -2)), ValueError, "fftn: axes must differ"),
        (lambda: paddle.fft.fftn(x, (2,), (0, 1)), ValueError, "fftn: s has 1 sizes and axes 2"),
        (lambda: paddle.fft.rfft(paddle.fft.fft(x)), TypeError, "rfft: x must be real"),
        (lambda: paddle.fft.fft2(paddle.ones([3])), ValueError, "fft2: x must have at least 2"),
        (lambda: paddle.fft.irfft(paddle.ones([1])), ValueError, "irfft: the size of the result"),
        (lambda: paddle.fft.fft(x.astype("float16")), TypeError, "fft: x must be float32"),
        (lambda: paddle.fft.fftfreq(0), ValueError, "fftfreq: n and d"),
    ):
        with pytest.raises(kind, match=text):
            call()
