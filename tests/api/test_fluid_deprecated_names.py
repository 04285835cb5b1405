"""Rarely used names of fluid: ComplexVariable, the argument stat_dict, the tracer."""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest


def test_complex_variables():
    real, imag = paddle.to_tensor(np.float64([[1, 2]])), paddle.to_tensor(np.float64([[3, 4]]))
    z = fluid.ComplexVariable(real, imag)
    assert z.dtype == "complex128" and list(z.shape) == [1, 2] and z.numpy().tolist() == [[1 + 3j, 2 + 4j]]
    z.name = "z"
    assert z.name == {"real": "z.real", "imag": "z.imag"}
    z.name = ("a", "b")
    assert real.name == "a" and "REAL" in str(z) and "IMAG" in repr(z)
    with pytest.raises(ValueError, match="name of a ComplexVariable"):
        z.name = 3
    with pytest.raises(AssertionError, match="one shape"):
        fluid.framework.ComplexVariable(real, paddle.to_tensor(np.float64([1.0])))
    with pytest.raises(AssertionError, match="one data type"):
        fluid.ComplexVariable(real, paddle.to_tensor(np.float32([[1, 2]])))


def test_stat_dict_is_a_deprecated_argument():
    @fluid.framework.deprecate_stat_dict
    def load(state_dict=None):
        return state_dict

    with pytest.warns(DeprecationWarning, match="state_dict"):
        assert load(stat_dict=3) == 3
    assert load(state_dict=4) == load(4) == 4


def test_the_tracer_traces():
    out = paddle.to_tensor([0.0])
    x = paddle.to_tensor([2.0], stop_gradient=False)
    for recorded in (True, False):
        tracer = fluid.dygraph.Tracer()
        tracer.trace("square", {"X": [x]}, {"Out": [out]}, {}, fluid.CPUPlace(), recorded)
        assert out.numpy().tolist() == [4.0]
    fluid.monkey_patch_varbase()
    fluid.monkey_patch_variable()
    with pytest.raises(NotImplementedError, match="custom.so"):
        paddle.incubate.load_op_library("custom.so")
