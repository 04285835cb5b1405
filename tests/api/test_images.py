"""Image functions and layers (resizing, padding, grids, normalization) in both modes."""

import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.nn.functional as F
import pytest

#: a startup Program of a network without parameters is empty
pytestmark = pytest.mark.filterwarnings("ignore:the Program has no operators to run")

X = np.random.RandomState(0).uniform(-1, 1, (2, 3, 4, 5)).astype("float32")


def static(build, feed=None):
    """The result of `build(x)` in a Program."""
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup), paddle.static.scope_guard(paddle.static.Scope()):
            x = paddle.static.data("x", [-1, *X.shape[1:]], "float32")
            out = build(x)
            exe = paddle.static.Executor()
            exe.run(startup)
            return exe.run(main, feed={"x": X, **(feed or {})}, fetch_list=[out])[0]
    finally:
        paddle.disable_static()


BOTH = {
    "interpolate": lambda x: F.interpolate(x, [7, 3], mode="bilinear"),
    "scale": lambda x: F.interpolate(x, scale_factor=[1.5, 2], mode="bicubic"),
    "area": lambda x: F.interpolate(x, [2, 5], mode="area"),
    "reflect": lambda x: F.pad(x, [1, 2, 3, 0], mode="reflect"),
    "constant": lambda x: F.pad(x, [1, 2, 3, 0], value=2.0, data_format="NHWC"),
    "all": lambda x: F.pad(x, [0, 0, 1, 0, 0, 2, 1, 1], value=2.0),
    "lrn": lambda x: F.local_response_norm(x, 4, alpha=2.0),
    "lrn last": lambda x: F.local_response_norm(x, 3, data_format="NHWC"),
    "instance_norm": lambda x: F.instance_norm(x),
    "prelu": lambda x: F.prelu(x, paddle.full([1], 0.3)),
    "maxout": lambda x: F.maxout(x, 3),
    "label_smooth": lambda x: F.label_smooth(x, epsilon=0.3),
    "temporal_shift": lambda x: F.temporal_shift(x, 2),
    "grid": lambda x: F.grid_sample(x, F.affine_grid(paddle.full([2, 2, 3], 0.4), [2, 3, 6, 2])),
    "crop": lambda x: paddle.crop(x, [2, -1, 2, 2], [0, 1, 1, 2]),
    "image_resize": lambda x: fluid.layers.image_resize(x, [8, 8], align_corners=False, align_mode=0),
    "short": lambda x: fluid.layers.image_resize_short(x, 8),
    "nearest": lambda x: fluid.layers.resize_nearest(x, scale=1.7),
    "pad2d": lambda x: fluid.layers.pad2d(x, [1, 0, 2, 1], "edge"),
    "fluid lrn": lambda x: fluid.layers.lrn(x, n=3),
    "clip_by_norm": lambda x: fluid.layers.clip_by_norm(x, 0.5),
    "random_crop": lambda x: fluid.layers.random_crop(x, [3, 2, 2], seed=9),
    "position": lambda x: fluid.layers.add_position_encoding(paddle.reshape(x, [2, 15, 4]), 1.0, 0.5),
}


@pytest.mark.parametrize("name", BOTH)
def test_both_modes(name):
    eager = BOTH[name](paddle.to_tensor(X)).numpy()
    np.testing.assert_allclose(static(BOTH[name]), eager, rtol=1e-5, atol=1e-6)


def test_sizes_as_tensors():
    want = F.interpolate(paddle.to_tensor(X), [7, 3], mode="nearest").numpy()

    def of_tensor(x):
        return F.interpolate(x, paddle.assign(np.array([7, 3], "int32")), mode="nearest")

    def of_list(x):
        return F.interpolate(x, [paddle.full([1], 7, "int32"), 3], mode="nearest")

    for build in (of_tensor, of_list):
        np.testing.assert_array_equal(static(build), want)
        np.testing.assert_array_equal(build(paddle.to_tensor(X)).numpy(), want)
    padded = static(lambda x: F.pad(x, paddle.assign(np.array([1, 2, 0, 1], "int32"))))
    np.testing.assert_array_equal(padded, F.pad(paddle.to_tensor(X), [1, 2, 0, 1]).numpy())


def test_one_axis():
    x = paddle.to_tensor(X[:, :, 0])
    mirrored = np.pad(X[:, :, 0], [(0, 0), (0, 0), (2, 1)], mode="reflect")
    np.testing.assert_array_equal(F.pad(x, [2, 1], mode="reflect", data_format="NCL").numpy(), mirrored)
    assert F.interpolate(x, [9], mode="linear", data_format="NCW").shape == [2, 3, 9]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: F.interpolate(x), ValueError),
        (lambda x: F.interpolate(x, [2, 2], 2), ValueError),
        (lambda x: F.interpolate(x, [2], mode="linear"), ValueError),
        (lambda x: F.interpolate(x, [2, 2, 2]), ValueError),
        (lambda x: F.interpolate(x, [2, 0]), AssertionError),
        (lambda x: F.interpolate(x, scale_factor=-1), ValueError),
        (lambda x: F.interpolate(x, scale_factor="2"), TypeError),
        (lambda x: F.interpolate(x, [2, 2], mode="cubic"), ValueError),
        (lambda x: F.interpolate(x, [2, 2], align_corners=True), ValueError),
        (lambda x: F.interpolate(x, [2, 2], mode="bilinear", align_corners=1), TypeError),
        (lambda x: F.interpolate(x, [2, 2], data_format="NCW"), ValueError),
        (lambda x: F.pad(x, [1, 1], mode="mirror"), AssertionError),
        (lambda x: F.pad(x, [1, 1, 1, 1], data_format="NCL"), AssertionError),
        (lambda x: F.pad(x, [9, 1, 1, 1], mode="reflect"), ValueError),
        (lambda x: F.pad(x, [1, 1]), ValueError),
        (lambda x: F.prelu(x, paddle.ones([2])), AssertionError),
        (lambda x: F.maxout(x, 3, axis=2), ValueError),
        (lambda x: F.label_smooth(x, epsilon=2), ValueError),
        (lambda x: F.pixel_shuffle(x, 2), ValueError),
        (lambda x: F.pixel_shuffle(x, 2.0), TypeError),
        (lambda x: F.local_response_norm(x, 3, data_format="NC"), ValueError),
        (lambda x: F.grid_sample(x, x), ValueError),
        (lambda x: F.affine_grid(3, [1, 1, 2, 2]), ValueError),
        (lambda x: F.temporal_shift(x, 2, 0.6), ValueError),
        (lambda x: paddle.crop(x, [0, 1, 1, 1]), ValueError),
        (lambda x: paddle.crop(x, [1, 1, 1, 1.5]), TypeError),
        (lambda x: paddle.crop(x, [1, 1, 1, 1], [0, 0, 0, 9]), ValueError),
        (lambda x: fluid.layers.image_resize(x, resample="BICUBIC", out_shape=[2, 2]), ValueError),
        (lambda x: fluid.layers.resize_bilinear(x, scale="3"), TypeError),
        (lambda x: paddle.nn.InstanceNorm1D(3)(x), ValueError),
        (lambda x: paddle.nn.InstanceNorm2D(3, weight_attr=False), AssertionError),
    ],
)
def test_errors(call, error):
    with pytest.raises(error):
        call(paddle.to_tensor(X))


def test_layers():
    x = paddle.to_tensor(X)
    assert paddle.nn.UpsamplingBilinear2D(scale_factor=2)(x).shape == [2, 3, 8, 10]
    np.testing.assert_array_equal(paddle.nn.UpsamplingNearest2D([8, 10])(x).numpy(), X.repeat(2, 2).repeat(2, 3))
    assert paddle.nn.Pad2D([1, 0, 0, 2])(x).shape == [2, 3, 6, 6]
    norm = paddle.nn.InstanceNorm2D(3)
    got = norm(x).numpy()
    np.testing.assert_allclose(got.mean((2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(got.var((2, 3)), 1, atol=1e-3)
    slopes = paddle.nn.PReLU(3)
    slopes(x).sum().backward()
    np.testing.assert_allclose(np.asarray(slopes._weight.grad), np.minimum(X, 0).sum((0, 2, 3)), rtol=1e-5)
    assert str(paddle.nn.Pad1D([1, 2])) == "Pad1D(padding=[1, 2], mode=constant, value=0.0, data_format=NCL)"


def test_convert_sync_batchnorm():
    net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 5, 3), paddle.nn.Sequential(paddle.nn.BatchNorm2D(5)))
    weight = net[1][0].weight
    net = paddle.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert isinstance(net[1][0], paddle.nn.SyncBatchNorm) and net[1][0].weight is weight
    assert net(paddle.to_tensor(X)).shape == [2, 5, 2, 3]
