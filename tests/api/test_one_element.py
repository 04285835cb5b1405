"""Conversion of one-element arrays to numbers, with all numpy versions."""

from __future__ import annotations

import pickle

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle._basics import mode


def fetched() -> np.ndarray:
    with mode._dygraph_guard(None), paddle.static.program_guard(paddle.static.Program()):
        out = fluid.layers.fill_constant([1], "float32", 2.5)
        return paddle.static.Executor().run(paddle.static.default_main_program(), fetch_list=[out])[0]


@pytest.mark.parametrize(
    "array", [lambda: paddle.to_tensor([2.5]).numpy(), lambda: paddle.to_tensor([[2.5]]).numpy(), fetched]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_numbers(array):
    a = array()
    assert isinstance(a, np.ndarray) and a.ndim > 0
    assert (float(a), int(a), complex(a), bool(a)) == (2.5, 2, 2.5, True)
    assert "%f %d" % (a, a) == "2.500000 2"
    assert repr(a).startswith("array([") and type(pickle.loads(pickle.dumps(a))) is np.ndarray
    assert float(a * 2) == 5.0 and a.tolist() == np.asarray(a).tolist()


def test_results_are_plain():
    a = paddle.to_tensor([2.5]).numpy()
    assert type(a + np.ones(3)) is np.ndarray and type(np.concatenate([a, a])) is np.ndarray
    assert isinstance(a.mean(), np.float32) and isinstance(a[0], np.float32)
    assert type(paddle.to_tensor([1.0, 2.0]).numpy()) is np.ndarray
    x = np.zeros(2)
    x[1] = a
    assert x.tolist() == [0.0, 2.5]


def test_format_and_index():
    if not hasattr(paddle.to_tensor([1]).numpy(), "_number"):
        pytest.skip("numpy converts them itself")
    assert f"{paddle.to_tensor([2.5]).numpy():.3f} {paddle.to_tensor([2.5]).numpy()}" == "2.500 [2.5]"
    assert list(range(paddle.to_tensor([2]).numpy())) == [0, 1]
    with pytest.raises(TypeError):
        range(paddle.to_tensor([2.5]).numpy() > 1, paddle.to_tensor([2.5]).numpy().reshape(1)[:0])


def test_1x_modules():
    import logging

    from paddle.fluid import core, default_scope_funcs
    from paddle.fluid.log_helper import get_logger

    log = get_logger("a_name", logging.WARNING, fmt="%(message)s")
    assert get_logger("a_name", logging.INFO) is log and len(log.handlers) == 1 and not log.propagate
    assert not core.is_float16_supported(core.CPUPlace()) and core.has_grad_op_maker("relu")
    default_scope_funcs.enter_local_scope()
    made = default_scope_funcs.var("a")
    assert made is not None and default_scope_funcs.find_var("a") is not None
    default_scope_funcs.leave_local_scope()
    assert default_scope_funcs.find_var("a") is None
    with pytest.raises(IndexError):
        default_scope_funcs.leave_local_scope()
