"""`paddle.signal`, complex views, segments, unpooling and names of `paddle.device` of Paddle 2.1 to 2.6."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

X = np.random.RandomState(3).randn(2, 50)
WINDOW = np.hanning(10) + 0.1


def reference(x, n_fft, hop, window, center, pad_mode, normalized, onesided):
    if center:
        x = np.pad(x, [(0, 0), (n_fft // 2, n_fft // 2)], pad_mode)
    missing = n_fft - len(window)
    window = np.pad(window, (missing // 2, missing - missing // 2))
    frames = np.lib.stride_tricks.sliding_window_view(x, n_fft, -1)[:, ::hop] * window
    transform = np.fft.rfft if onesided else np.fft.fft
    return transform(frames, norm="ortho" if normalized else None).swapaxes(1, 2)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("pad_mode", "normalized", "onesided"),
    [("reflect", False, True), ("constant", True, True), ("reflect", False, False)],
)
def test_stft(center, pad_mode, normalized, onesided):
    keywords = dict(center=center, pad_mode=pad_mode, normalized=normalized, onesided=onesided)
    want = reference(X, 16, 4, WINDOW, **keywords)

    def run(x, window):
        return paddle.signal.stft(x, 16, 4, 10, window, **keywords)

    got = run(paddle.to_tensor(X), paddle.to_tensor(WINDOW))
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            out = run(paddle.static.data("x", [-1, 50], "float64"), paddle.static.data("w", [10], "float64"))
        feed = {"x": X, "w": WINDOW}
        [static] = paddle.static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=[out])
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(static, got.numpy())


@pytest.mark.parametrize("shape", [(50,), (2, 50)])
@pytest.mark.parametrize("keywords", [{}, {"normalized": True}, {"onesided": False}, {"length": 40}])
def test_istft_inverts(shape, keywords):
    x = X.reshape(-1)[: np.prod(shape)].reshape(shape)
    forward = {k: v for k, v in keywords.items() if k != "length"}
    spectrum = paddle.signal.stft(paddle.to_tensor(x), 16, 4, 10, paddle.to_tensor(WINDOW), **forward)
    back = paddle.signal.istft(spectrum, 16, 4, 10, paddle.to_tensor(WINDOW), **keywords)
    assert back.shape[-1] == keywords.get("length", 48)
    np.testing.assert_allclose(back.numpy(), x[..., : back.shape[-1]], atol=1e-12)


def test_complex_signals():
    x = X[:, :25] + 1j * X[:, 25:]
    spectrum = paddle.signal.stft(paddle.to_tensor(x), 8, 2, onesided=False)
    back = paddle.signal.istft(spectrum, 8, 2, onesided=False, return_complex=True)
    np.testing.assert_allclose(back.numpy(), x[:, : back.shape[1]], atol=1e-12)


def test_frames():
    x = np.arange(24.0).reshape(2, 12)
    last = paddle.signal.frame(paddle.to_tensor(x), 4, 3).numpy()
    want = np.lib.stride_tricks.sliding_window_view(x, 4, -1)[:, ::3].swapaxes(1, 2)
    np.testing.assert_array_equal(last, want)
    first = paddle.signal.frame(paddle.to_tensor(x.T.copy()), 4, 3, axis=0).numpy()
    np.testing.assert_array_equal(first, want.transpose(2, 1, 0))
    added = paddle.signal.overlap_add(paddle.to_tensor(want), 3).numpy()
    np.testing.assert_array_equal(added[:, [0, 2, 3, 6, 9, 11 - 2]], x[:, [0, 2, 3, 6, 9, 9]] * [1, 1, 2, 2, 1, 1])
    np.testing.assert_array_equal(
        paddle.signal.overlap_add(paddle.to_tensor(want.transpose(2, 1, 0).copy()), 3, axis=0).numpy(), added.T
    )


def test_gradients():
    """The gradient of a sum of squares by finite differences, through padding and overlapping frames."""

    def loss(x):
        parts = paddle.as_real(paddle.signal.stft(x, 8, 3, center=True))
        return paddle.sum(parts * parts) + paddle.sum(paddle.signal.overlap_add(paddle.signal.frame(x, 6, 2), 2) ** 3)

    x = paddle.to_tensor(X[0, :14], stop_gradient=False)
    loss(x).backward()
    for i in range(14):
        ends = [loss(paddle.to_tensor(X[0, :14] + sign * 1e-6 * (np.arange(14) == i))).item() for sign in (1, -1)]
        np.testing.assert_allclose(x.grad[i], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s, x: s.frame(x, 60, 1), "frame: a frame has 60 samples, but x, of shape .2, 50., has only 50"),
        (lambda s, x: s.frame(x, 0, 1), "frame: frame_length must be a positive integer, got 0"),
        (lambda s, x: s.frame(x, 4, 1, axis=1), "frame: axis must be 0 or -1, got 1"),
        (lambda s, x: s.overlap_add(x[0], 1), "overlap_add: x must have two dimensions or more"),
        (lambda s, x: s.stft(x, 16, win_length=20), "stft: win_length must be at most n_fft .16., got 20"),
        (lambda s, x: s.stft(x, 16, window=paddle.ones([3])), "stft: window must have the shape .16. of win_length"),
        (lambda s, x: s.stft(x, 16, pad_mode="edge"), "stft: pad_mode must be 'reflect' or 'constant', got 'edge'"),
        (lambda s, x: s.stft(x, 128), "stft: pad_mode 'reflect' by 64 needs more than 64 samples, x has 50"),
        (lambda s, x: s.stft(x.astype("complex128"), 16), "stft: onesided must be False for complex numbers"),
        (lambda s, x: s.stft(x.astype("int64"), 16, window=paddle.ones([16])), "floating-point or complex .*got int64"),
        (lambda s, x: s.istft(s.stft(x, 16), 32), "istft: x must have 17 frequencies .n_fft 32, onesided True., got 9"),
        (lambda s, x: s.istft(s.stft(x, 16), 16, return_complex=True), "istft: onesided must be False where"),
        (
            lambda s, x: s.istft(s.stft(x, 16, 16), 16, 16, window=paddle.zeros([16])),
            "istft: the squared windows add up",
        ),
    ],
)
def test_wrong_arguments(call, said):
    with pytest.raises(ValueError, match=said):
        call(paddle.signal, paddle.to_tensor(X))


def test_bits_and_segments():
    x, y = np.array([[6, 5], [-1, 0]]), np.array([3, 9])
    for name in ("and", "or", "xor"):
        got = getattr(paddle, f"bitwise_{name}")(paddle.to_tensor(x), paddle.to_tensor(y))
        np.testing.assert_array_equal(got.numpy(), getattr(np, f"bitwise_{name}")(x, y))
    assert paddle.bitwise_not(paddle.to_tensor([True, False])).tolist() == [False, True]
    with pytest.raises(TypeError, match="bitwise_and: y must be bool or an integer type, got float32"):
        paddle.bitwise_and(paddle.to_tensor([1]), paddle.ones([1]))
    with pytest.raises(TypeError, match="x and y must have one type, got int64 and int32"):
        paddle.bitwise_or(paddle.to_tensor([1]), paddle.ones([1], "int32"))
    rows, ids = paddle.to_tensor([[1.0, 8.0], [3.0, 2.0], [5.0, 5.0]], stop_gradient=False), paddle.to_tensor([0, 0, 2])
    assert paddle.geometric.segment_min(rows, ids).tolist() == [[1.0, 2.0], [0.0, 0.0], [5.0, 5.0]]
    paddle.incubate.segment_mean(rows, ids).sum().backward()
    assert rows.grad.tolist() == [[0.5, 0.5], [0.5, 0.5], [1.0, 1.0]]


@pytest.mark.parametrize("p", [0, 1, 2.0, 3.0, float("inf")])
def test_distances(p):
    x, y = X[:, :6].reshape(1, 4, 3), X[:, 10:25].reshape(2, 5, 3)
    want = np.linalg.norm(x[:, :, None] - y[:, None], ord=p, axis=-1)
    np.testing.assert_allclose(paddle.cdist(paddle.to_tensor(x), paddle.to_tensor(y), p).numpy(), want, rtol=1e-12)
    with pytest.raises(ValueError, match="cdist: x and y must be"):
        paddle.cdist(paddle.ones([2, 3]), paddle.ones([2, 4]))


def test_device_names():
    from paddle.device import cuda

    paddle.device.synchronize()
    cuda.synchronize()
    assert paddle.device.get_all_custom_device_type() == [] and not paddle.is_compiled_with_rocm()
    if not paddle.is_compiled_with_cuda():
        assert cuda.device_count() == 0 and cuda.empty_cache() is None
        with pytest.raises(ValueError, match="memory_allocated needs a GPU"):
            cuda.memory_allocated()
    with pytest.raises(ValueError, match="state_list must have one state, got 0"):
        paddle.set_rng_state([])


@pytest.mark.parametrize(("axes", "output_size"), [(1, None), (2, None), (2, [8, 8]), (3, None)])
def test_unpooling(axes, output_size):
    """Pooling the result gives the maxima again, and the gradient reaches them."""
    functions, n = paddle.nn.functional, np.prod([7] * axes)
    x = np.random.RandomState(1).permutation(6 * n).reshape(2, 3, *[7] * axes) + 1.0
    pool = getattr(functions, f"max_pool{axes}d")
    maxima, places = pool(paddle.to_tensor(x), 3, 2, return_mask=True)
    maxima = paddle.to_tensor(maxima.numpy(), stop_gradient=False)
    unpool = getattr(functions, f"max_unpool{axes}d")
    out = unpool(maxima, places, 3, 2, output_size=output_size)
    assert out.shape == [2, 3, *(output_size or [7] * axes)]
    layer = getattr(paddle.nn, f"MaxUnPool{axes}D")(3, 2, output_size=output_size)
    np.testing.assert_array_equal(layer(maxima, places).numpy(), out.numpy())
    if output_size is None:
        np.testing.assert_array_equal(pool(out, 3, 2).numpy(), maxima.numpy())
        assert set(out.numpy().ravel()) == {0.0, *maxima.numpy().ravel()}
    out.sum().backward()
    assert maxima.grad.max() >= 1.0
    with pytest.raises(ValueError, match=f"max_unpool{axes}d: data_format must be"):
        unpool(maxima, places, 3, 2, data_format="NHWC")
    with pytest.raises(ValueError, match=f"max_unpool{axes}d: x must have {axes + 2} dimensions and indices its shape"):
        unpool(maxima, places[:1], 3, 2)
    with pytest.raises(ValueError, match="output_size must differ"):
        unpool(maxima, places, 3, 2, output_size=[20] * axes)
