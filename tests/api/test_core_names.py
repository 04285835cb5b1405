"""Names of fluid.core used by upstream's tests and by old loaders."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import time

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle.fluid import core
from paddle.fluid.dygraph.parallel import _coalesce_tensors, _split_tensors


def test_tensor_list():
    arrays = [np.arange(6, dtype="float32").reshape(2, 3), np.arange(4, dtype="float32").reshape(4, 1)]
    tensors = [paddle.to_tensor(a) for a in arrays]
    before = [t.numpy() for t in tensors]
    ((row, same, shapes),) = _coalesce_tensors({0: tensors})
    assert row.shape == [10] and shapes == [[2, 3], [4, 1]]
    _split_tensors([[row * 2, same, shapes]])
    for tensor, old in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), old * 2)


@pytest.mark.parametrize("decorate", [paddle.no_grad(), fluid.dygraph.no_grad])
def test_decorators_keep_the_signature(decorate):
    def func(a, b=1, *, c: int = 2):
        return a

    assert inspect.getfullargspec(decorate(func)) == inspect.getfullargspec(func)


def test_defaults_of_attributes():
    found = core.get_op_attrs_default_value(b"fill_constant")
    assert found["force_cpu"] is False and found == core.get_op_attrs_default_value("fill_constant")
    with pytest.raises(ValueError, match="not registered"):
        core.get_op_attrs_default_value("no_such")


def exits():
    core._set_process_signal_handler()
    os._exit(3)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def well():
    os._exit(0)


@pytest.mark.parametrize(("work", "says"), [(exits, "exited with code 3"), (killed, "Killed"), (well, None)])
def test_failed_processes_are_reported(work, says):
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    core._set_process_pids(1, [process.pid])
    end = time.monotonic() + 60
    try:
        while True:
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None or time.monotonic() > end:
                break
            core._throw_error_if_process_failed()
            time.sleep(0.01)
        if says:
            with pytest.raises(SystemError, match=f"process {process.pid} .*{says}"):
                core._throw_error_if_process_failed()
        core._throw_error_if_process_failed()  # reported once
    finally:
        core._erase_process_pids(1)
        process.join(60)
    core._throw_error_if_process_failed()


def test_only_selected_rows_become_tensors():
    paddle.enable_static()
    try:
        with fluid.program_guard(fluid.Program()), pytest.raises(TypeError, match="SELECTED_ROWS"):
            fluid.layers.get_tensor_from_selected_rows(fluid.data("x", [2, 3]))
    finally:
        paddle.disable_static()


def test_buffers_of_predictors():
    tensor = core.PaddleTensor(np.array([[1, 2]], "int32"))
    assert tensor.data.tolist("int32") == [1, 2]
    tensor.data.reset(np.array([3, 4], "int32"))
    assert tensor.as_ndarray().tolist() == [[3, 4]]
    with pytest.raises(ValueError, match="tolist takes"):
        tensor.data.tolist("int8")
