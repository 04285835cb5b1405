"""Convolution, pooling and unfold functions in both modes."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import fluid


def ramp(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def eager(function, *arrays):
    out = function(*[paddle.to_tensor(a) for a in arrays])
    return [o.numpy() for o in out] if isinstance(out, (list, tuple)) else [out.numpy()]


def static(function, *arrays):
    paddle.enable_static()
    try:
        main, start = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, start), paddle.utils.unique_name.guard():
            names = [f"x{i}" for i in range(len(arrays))]
            ins = [paddle.static.data(n, a.shape, str(a.dtype)) for n, a in zip(names, arrays, strict=True)]
            out = function(*ins)
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        exe = paddle.static.Executor()
        if start.global_block().ops:
            exe.run(start)
        feed = dict(zip(names, arrays, strict=True))
        return [np.array(t) for t in exe.run(main, feed=feed, fetch_list=outs, return_numpy=False)]
    finally:
        paddle.disable_static()


def same(function, *arrays):
    """Asserts that both modes give the same result, and returns it."""
    one, two = eager(function, *arrays), static(function, *arrays)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return one[0] if len(one) == 1 else one


def test_one_dimension_equals_an_image_of_width_one():
    x, w = ramp(1, 2, 6), ramp(3, 2, 3)
    wide = same(lambda x, w: F.conv2d(x, w, stride=[1, 2], padding=[0, 1]), x[:, :, None], w[:, :, None])
    np.testing.assert_allclose(same(lambda x, w: F.conv1d(x, w, stride=2, padding=1), x, w), wide[:, :, 0])
    w = ramp(2, 3, 3)
    wide = same(lambda x, w: F.conv2d_transpose(x, w, stride=[1, 2], padding=[0, 1]), x[:, :, None], w[:, :, None])
    np.testing.assert_allclose(same(lambda x, w: F.conv1d_transpose(x, w, stride=2, padding=1), x, w), wide[:, :, 0])
    last = same(lambda x, w: F.conv1d_transpose(x, w, stride=2, padding=1, data_format="NLC"), x.transpose(0, 2, 1), w)
    np.testing.assert_allclose(last.transpose(0, 2, 1), wide[:, :, 0])


def test_transposed_convolutions_are_the_gradient_of_convolutions():
    for dims, conv, transposed in ((2, F.conv2d, F.conv2d_transpose), (3, F.conv3d, F.conv3d_transpose)):
        x = paddle.to_tensor(ramp(1, 2, *[5] * dims), stop_gradient=False)
        w = paddle.to_tensor(ramp(4, 2, *[3] * dims))
        y = conv(x, w, stride=2, padding=1)
        (grad,) = paddle.grad([y.sum()], [x])
        again = transposed(paddle.ones_like(y), w, stride=2, padding=1)
        np.testing.assert_allclose(again.numpy(), grad.numpy(), rtol=1e-5)


def test_output_size_and_padding():
    x, w = paddle.ones([1, 2, 3, 3]), paddle.ones([2, 1, 3, 3])
    assert F.conv2d_transpose(x, w, stride=2).shape == [1, 1, 7, 7]
    assert F.conv2d_transpose(x, w, stride=2, output_size=8).shape == [1, 1, 8, 8]
    assert F.conv2d_transpose(x, w, stride=2, output_padding=[1, 0]).shape == [1, 1, 8, 7]
    with pytest.raises(ValueError):
        F.conv2d_transpose(x, w, stride=2, output_size=8, output_padding=1)
    with pytest.raises(ValueError):
        F.conv2d_transpose(x, w, stride=2, output_size=9)
    with pytest.raises(ValueError):
        F.conv1d_transpose(paddle.ones([1, 2, 3]), paddle.ones([2, 1, 3]), stride=2, output_padding=3)
    layer = paddle.nn.Conv2DTranspose(2, 1, 3, stride=2, output_padding=1)
    assert layer(x).shape == [1, 1, 8, 8]
    assert layer(x, output_size=[7, 8]).shape == [1, 1, 7, 8]
    assert "output_padding=1" in layer.extra_repr()


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_maxima_with_indices(dims):
    x = np.random.default_rng(dims).permutation(2 * 4**dims).astype("float32").reshape(1, 2, *[4] * dims)
    pool = getattr(F, f"max_pool{dims}d")
    y, mask = same(lambda x: pool(x, 2, return_mask=True), x)
    np.testing.assert_array_equal(y, same(lambda x: pool(x, 2), x))
    flat = x.reshape(2, -1)
    np.testing.assert_array_equal(y.reshape(2, -1), np.take_along_axis(flat, mask.reshape(2, -1), 1))
    adaptive = getattr(F, f"adaptive_max_pool{dims}d")
    z, places = same(lambda x: adaptive(x, 2, return_mask=True), x)
    np.testing.assert_array_equal(z, y)
    np.testing.assert_array_equal(places, mask)
    layer = getattr(paddle.nn, f"AdaptiveMaxPool{dims}D")(2, return_mask=True)
    np.testing.assert_array_equal(layer(paddle.to_tensor(x))[1].numpy(), mask)
    if dims > 1:
        with pytest.raises(ValueError):
            pool(paddle.to_tensor(x), 2, return_mask=True, data_format={2: "NHWC", 3: "NDHWC"}[dims])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_averages(dims):
    x = ramp(1, 2, *[4] * dims)
    want = x.reshape(1, 2, *[2, 2] * dims).mean(tuple(range(3, 3 + 2 * dims, 2)))
    np.testing.assert_allclose(same(lambda x: getattr(F, f"avg_pool{dims}d")(x, 2), x), want)
    np.testing.assert_allclose(same(lambda x: getattr(F, f"adaptive_avg_pool{dims}d")(x, 2), x), want)
    np.testing.assert_allclose(getattr(paddle.nn, f"AvgPool{dims}D")(2)(paddle.to_tensor(x)).numpy(), want)
    if dims > 1:
        halved = same(lambda x: getattr(F, f"avg_pool{dims}d")(x, 2, divisor_override=2**dims * 2), x)
        np.testing.assert_allclose(halved, want / 2)


def test_unfold_and_bilinear():
    x = ramp(1, 2, 3, 4)
    columns = same(lambda x: F.unfold(x, 2, paddings=[1, 0]), x)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
    np.testing.assert_array_equal(columns[0, :, 0], padded[0, :, :2, :2].reshape(-1))
    assert columns.shape == (1, 8, 12)
    for bad in ({"paddings": [1, 2, 3]}, {"paddings": (1, 1)}):
        with pytest.raises(ValueError):
            F.unfold(paddle.to_tensor(x), 2, **bad)
    a, b, w = ramp(2, 3), ramp(2, 4), ramp(5, 3, 4)
    np.testing.assert_allclose(same(F.bilinear, a, b, w), np.einsum("bm,kmn,bn->bk", a, w, b), rtol=1e-6)
    assert paddle.nn.Bilinear(3, 4, 5)(paddle.to_tensor(a), paddle.to_tensor(b)).shape == [2, 5]


def test_static_layers_create_their_parameters():
    nn = paddle.static.nn
    x, volume = np.ones([2, 4, 6, 6], "float32"), np.ones([2, 4, 3, 6, 6], "float32")
    shapes = {
        (2, 3, 4, 4): lambda x: nn.conv2d(x, 3, 3, act="relu"),
        (2, 3, 8, 8): lambda x: nn.conv2d_transpose(x, 3, filter_size=3),
        (2, 3, 12, 13): lambda x: nn.conv2d_transpose(x, 3, output_size=[12, 13], stride=2),
        (2, 4, 7, 7): lambda x: nn.conv2d_transpose(x, 4, filter_size=2, groups=4, use_cudnn=False),
    }
    for shape, layer in shapes.items():
        assert static(layer, x)[0].shape == shape
    assert static(lambda x: nn.conv3d(x, 3, [1, 3, 3], bias_attr=False), volume)[0].shape == (2, 3, 3, 4, 4)
    assert static(lambda x: nn.conv3d_transpose(x, 3, filter_size=2, act="relu"), volume)[0].shape == (2, 3, 4, 7, 7)
    last = volume.transpose(0, 2, 3, 4, 1)
    shape = (2, 4, 7, 7, 3)
    assert static(lambda x: nn.conv3d_transpose(x, 3, filter_size=2, data_format="NDHWC"), last)[0].shape == shape
    offset, mask = np.zeros([2, 18, 4, 4], "float32"), np.ones([2, 9, 4, 4], "float32")
    assert static(lambda x, o, m: nn.deform_conv2d(x, o, m, 3, 3), x, offset, mask)[0].shape == (2, 3, 4, 4)
    assert static(lambda x, o: nn.deform_conv2d(x, o, None, 3, 3), x, offset)[0].shape == (2, 3, 4, 4)
    assert static(lambda x: nn.row_conv(x, 2, act="relu"), x[0])[0].shape == (4, 6, 6)
    a, b = np.ones([2, 3], "float32"), np.ones([2, 4], "float32")
    assert static(lambda a, b: nn.bilinear_tensor_product(a, b, 5, act="tanh"), a, b)[0].shape == (2, 5)


def test_fluid_layers():
    layers = fluid.layers
    x, volume = ramp(2, 3, 6, 6), ramp(2, 3, 4, 6, 6)
    assert static(lambda x: layers.pool3d(x, 2, "avg", 2), volume)[0].shape == (2, 3, 2, 3, 3)
    assert static(lambda x: layers.adaptive_pool2d(x, [2, 3], "avg"), x)[0].shape == (2, 3, 2, 3)
    y, mask = static(lambda x: layers.adaptive_pool3d(x, 2, require_index=True), volume)
    assert y.shape == mask.shape == (2, 3, 2, 2, 2) and mask.dtype == np.int32
    rows = static(lambda x: layers.im2sequence(x, [2, 2], padding=[1, 0]), x)[0]
    assert rows.shape == (2 * 7 * 5, 12)
    sizes = np.array([[6, 6], [4, 3]], "float32")
    assert static(lambda x, s: layers.im2sequence(x, 2, input_image_size=s), x, sizes)[0].shape == (25 + 6, 12)
    offset = np.zeros([2, 8, 5, 5], "float32")
    moved = static(lambda x, o: layers.deformable_conv(x, o, None, 2, 2, modulated=False), x, offset)[0]
    assert moved.shape == (2, 2, 5, 5)
    with pytest.raises(ValueError):
        static(lambda x: layers.pool3d(x, 2, "sum"), volume)
    with pytest.raises(ValueError):
        static(lambda x: layers.adaptive_pool2d(x, 2, "avg", require_index=True), x)
    with pytest.raises(ValueError):
        static(lambda x: layers.conv2d_transpose(x, 2), x)
    with pytest.raises(ValueError):
        static(lambda x: layers.conv3d(x, 2, 3, groups=2), volume)


def test_dygraph_layers_of_1x():
    with fluid.dygraph.guard():
        x, volume = paddle.ones([1, 4, 6, 6]), paddle.ones([1, 4, 3, 6, 6])
        nn = fluid.dygraph
        assert nn.Conv2DTranspose(4, 3, 3, output_size=8, act="relu")(x).shape == [1, 3, 8, 8]
        assert nn.Conv2DTranspose(4, 4, 3, groups=4, use_cudnn=False)(x).shape == [1, 4, 8, 8]
        assert nn.Conv3D(4, 2, [1, 3, 3], bias_attr=False)(volume).shape == [1, 2, 3, 4, 4]
        assert nn.Conv3DTranspose(4, 2, 2)(volume).shape == [1, 2, 4, 7, 7]
        assert nn.BilinearTensorProduct(4, 6, 5)(paddle.ones([2, 4]), paddle.ones([2, 6])).shape == [2, 5]
        with pytest.raises(ValueError):
            nn.Conv3D(4, 2, 3, groups=3)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(dims, mode):
    layer = getattr(paddle.nn, f"Conv{dims}D")(2, 3, 3, padding=1, padding_mode=mode)
    x = ramp(1, 2, *[4] * dims)
    how = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    padded = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * dims], mode=how)
    want = getattr(F, f"conv{dims}d")(paddle.to_tensor(padded), layer.weight, layer.bias)
    np.testing.assert_allclose(layer(paddle.to_tensor(x)).numpy(), want.numpy(), rtol=1e-5)
    with pytest.raises(TypeError):
        getattr(paddle.nn, f"Conv{dims}D")(2, 3, 3, padding=[1] * dims, padding_mode=mode)


def test_an_image_without_elements_is_padding():
    """The memory of the result held other numbers before."""
    for filler in (7.5, -2.0):
        held = [paddle.full([27 * 16], filler) for _ in range(20)]
        del held
        got = paddle.nn.functional.unfold(paddle.ones([1, 2, 2, 0]), [3, 3], 1, [3, 3, 3, 3])
        assert got.shape == [1, 18, 24]
        np.testing.assert_array_equal(got.numpy(), 0.0)
