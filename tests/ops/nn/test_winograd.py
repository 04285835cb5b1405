"""3 x 3 convolutions by the Winograd algorithm, and the flag that disables it."""

import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.nn.functional as F
import pytest


@pytest.fixture
def flag():
    yield lambda on: fluid.set_flags({"FLAGS_conv_winograd": on})
    fluid.set_flags({"FLAGS_conv_winograd": True})


def values(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape, "float32")


def results(layout):
    last = layout == "NHWC"
    x = paddle.to_tensor(values(2, 20, 22, 24) if last else values(2, 24, 20, 22), stop_gradient=False)
    w = paddle.to_tensor(values(32, 24, 3, 3), stop_gradient=False)
    y = F.conv2d(x, w, padding=1, data_format=layout)
    return [y, *paddle.grad([(y * y).sum()], [x, w])]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_both_paths_are_correct(flag, layout):
    assert fluid.get_flags("FLAGS_conv_winograd") == {"FLAGS_conv_winograd": True}
    tiles = results(layout)
    flag(False)
    plain = results(layout)
    for a, b in zip(tiles, plain, strict=True):
        a, b = a.numpy(), b.numpy()
        assert not np.array_equal(a, b)
        np.testing.assert_allclose(a, b, atol=2e-5 * np.abs(b).max())
