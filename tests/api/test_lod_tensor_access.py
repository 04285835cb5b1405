"""LoDTensor: allocation by type, indexing, lists."""

from __future__ import annotations

import numpy as np
import pytest
from paddle import fluid
from paddle.fluid import core


def test_lod_tensor_access():
    t = core.LoDTensor()
    t._set_dims([2, 3])
    t.set_recursive_sequence_lengths([[1, 1]])
    for allocate, dtype in ((t._alloc_int, "int32"), (t._alloc_float, "float32"), (t._alloc_double, "float64")):
        allocate(fluid.CPUPlace())
        assert np.array(t).dtype == dtype and t.shape() == [2, 3] and t.recursive_sequence_lengths() == [[1, 1]]
    at = t._mutable_data(fluid.CPUPlace(), core.VarDesc.VarType.FP64)
    assert at == t._ptr()
    t.set([np.arange(3), np.arange(3, 6)], fluid.CPUPlace())
    array = np.arange(6).reshape(2, 3)
    for index in (1, slice(1, None), (slice(None, None, -1), 2), (0, 1)):
        np.testing.assert_array_equal(np.array(t[index]), array[index])
    part = t[0]
    part.set(np.zeros(3), fluid.CPUPlace())
    np.testing.assert_array_equal(np.array(t), array)
    with pytest.raises(ValueError, match="holds numbers"):
        t.set(["a", "b"], fluid.CPUPlace())
    with pytest.raises(IndexError):
        t[2]
