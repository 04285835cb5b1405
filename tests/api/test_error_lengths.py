"""Error messages abbreviate long arguments."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import _core

N = 100_000
LONG = list(range(N))
WRONG = {
    "reshape": lambda x: paddle.reshape(x, LONG),
    "reshape of texts": lambda x: paddle.reshape(x, ["x"] * N),
    "axis": lambda x: paddle.sum(x, ["x"] * N),
    "cumsum": lambda x: paddle.cumsum(x, LONG),
    "expand": lambda x: paddle.expand(x, LONG),
    "flip": lambda x: paddle.flip(x, LONG),
    "flag": lambda x: paddle.matmul(x, x, LONG),
    "kernel": lambda x: F.max_pool2d(x, LONG),
    "reduction": lambda x: F.mse_loss(x, x, LONG),
    "data format": lambda x: F.adaptive_avg_pool2d(x, 1, data_format="x" * N),
    "dtype": lambda x: paddle.to_tensor([1], dtype=LONG),
    "place": lambda x: paddle.to_tensor([1], place=LONG),
    "device": lambda x: paddle.CUDAPlace(LONG),
    "normalized_shape": lambda x: F.layer_norm(x, LONG),
    "learning_rate": lambda x: paddle.optimizer.lr.LinearWarmup(LONG, 1, 0, 1),
    "dlpack": lambda x: paddle.utils.dlpack.from_dlpack(LONG),
    "array": lambda x: paddle.reshape(x, np.arange(N)),
}


@pytest.mark.parametrize("name", WRONG)
def test_long_arguments(name):
    with pytest.raises((ValueError, TypeError)) as caught:
        WRONG[name](paddle.ones([2, 3]))
    assert 10 < len(str(caught.value)) < 3000


def test_beginning_and_end_are_kept():
    with pytest.raises(ValueError, match=r"^\(InvalidArgument\) operator reshape2: .*bytes left out.*") as caught:
        paddle.reshape(paddle.ones([2, 3]), LONG)
    assert "elements" in str(caught.value)
    with pytest.raises(ValueError, match=r"bytes left out\]") as caught:
        _core.ops.scale(paddle.ones([2]), scale="é" * N)  # truncated between characters
    assert "must be of type" in str(caught.value)


def test_short_arguments_are_complete():
    sizes = list(range(1, 200))
    with pytest.raises(ValueError) as caught:
        paddle.reshape(paddle.ones([2, 3]), sizes)
    assert str(sizes) in str(caught.value)
