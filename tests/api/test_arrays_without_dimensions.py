"""As in 2.0.2, a zero-dimensional array gives a Tensor of shape [], a Python number one of shape [1]."""

import copy
import pickle

import numpy as np
import paddle
import pytest
from paddle import fluid


def scalar(value=2.0, stop_gradient=True):
    return paddle.to_tensor(np.array(value, "float32"), stop_gradient=stop_gradient)


@pytest.mark.parametrize("make", [paddle.to_tensor, fluid.dygraph.to_variable])
def test_shapes(make):
    assert make(np.array(2.0)).shape == [] and make(np.array(True)).shape == []
    assert make(np.float64(2.0)).shape == [1] and make(np.array([2.0])).shape == [1]


def test_reads_as_a_number():
    x = scalar()
    assert (float(x), x.item(), bool(x), x.numpy().shape) == (2.0, 2.0, True, ())
    assert str(paddle.to_tensor(np.array(False))) == (
        "Tensor(shape=[], dtype=bool, place=CPUPlace, stop_gradient=True,\n       False)"
    )
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert again.shape == [] and again.item() == 2.0


def test_gradients():
    """The values are those of PaddlePaddle 1.8.5."""
    x = scalar(stop_gradient=False)
    y = x * x + x
    assert y.shape == []
    y.backward()
    assert x.gradient() == 5.0 and x.gradient().shape == ()
    assert (x * paddle.ones([2, 3])).shape == [2, 3]
    assert paddle.mean(x).shape == [1] and x.reshape([1]).shape == [1]


def test_guards_restart_name_numbering():
    outer = paddle.ones([1])
    before = outer.name
    for _ in range(2):
        with fluid.dygraph.guard():
            assert fluid.dygraph.to_variable(np.ones(2)).name == "generated_tensor_0"
            assert fluid.dygraph.to_variable(np.ones(2)).name == "generated_tensor_1"
    assert outer.name == before and paddle.ones([1]).name != before


def test_lod_tensor_from_lengths():
    tensor = fluid.LoDTensor([[2, 2], [1, 1, 2, 3]])
    assert tensor.recursive_sequence_lengths() == [[2, 2], [1, 1, 2, 3]]
    assert tensor.lod() == [[0, 2, 4], [0, 1, 2, 4, 7]]
