"""Arrays whose attributes are Python code: what is read from an object is read at one point in time."""

import numpy as np
import paddle
import pytest


class Shrinking(np.ndarray):
    """Its `dtype` makes it smaller."""

    @property
    def dtype(self):
        np.ndarray.resize(self, (1,), refcheck=False)
        return np.dtype("float32")


def shrinking():
    array = np.ndarray.__new__(Shrinking, (3_000_000,), "float32")
    array.fill(1)
    return array


@pytest.mark.parametrize(
    "use",
    [
        paddle.to_tensor,
        lambda array: paddle.fluid.core.LoDTensor().set(array, paddle.CPUPlace()),
        lambda array: paddle.zeros([3_000_000]).__setitem__(slice(None), array),
    ],
)
def test_an_array_that_shrinks_while_it_is_read(use):
    try:
        use(shrinking())
    except (TypeError, ValueError):
        return  # an error is right too; a read of freed memory is not


def test_a_subclass_with_a_wrong_dtype():
    class Lying(np.ndarray):
        dtype = np.dtype("float64")

    array = np.arange(6, dtype="float32").view(Lying)
    assert paddle.fluid.core.LoDTensor().set(array, paddle.CPUPlace()) is None
