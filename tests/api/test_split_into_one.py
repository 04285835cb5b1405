"""Splitting a dimension into one part: a list of one, in both modes."""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle._basics import mode

ONE = np.arange(6, dtype="float32").reshape(2, 1, 3)
WAYS = {
    "unstack": lambda x: paddle.unstack(x, 1),
    "unbind": lambda x: paddle.unbind(x, axis=1),
    "chunk": lambda x: paddle.chunk(x, 1, axis=2),
    "split": lambda x: paddle.split(x, 1, axis=1),
    "split in sections": lambda x: paddle.split(x, [3], axis=2),
    "split in the rest": lambda x: paddle.split(x, [-1], axis=0),
    "fluid.layers.split": lambda x: fluid.layers.split(x, 1, dim=1),
    "fluid.layers.unstack": lambda x: fluid.layers.unstack(x, axis=1),
    "fluid.layers.unbind": lambda x: fluid.layers.unbind(x, axis=1),
}


@pytest.mark.parametrize("way", [w for w in WAYS if hasattr(fluid.layers, w.rpartition(".")[2]) or "fluid" not in w])
def test_one_part(way):
    parts = WAYS[way](paddle.to_tensor(ONE))
    assert isinstance(parts, list) and len(parts) == 1
    want = parts[0].numpy()
    np.testing.assert_array_equal(want.ravel(), ONE.ravel())
    with mode._dygraph_guard(None), paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x = paddle.static.data("x", ONE.shape)
        x.stop_gradient = False
        parts = WAYS[way](x)
        assert isinstance(parts, list) and len(parts) == 1 and tuple(parts[0].shape) == want.shape
        (gradient,) = paddle.static.gradients(parts[0] * parts[0], x)
        got = paddle.static.Executor().run(feed={"x": ONE}, fetch_list=[parts[0], gradient])
        np.testing.assert_array_equal(got[0], want)
        np.testing.assert_array_equal(got[1], 2 * ONE)


@pytest.mark.parametrize("count", [0, -1])
def test_no_parts(count):
    with pytest.raises((ValueError, AssertionError)):
        paddle.split(paddle.to_tensor(ONE), count, axis=1)
    with mode._dygraph_guard(None), paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with pytest.raises((ValueError, AssertionError)):
            paddle.split(paddle.static.data("x", ONE.shape), count, axis=1)
