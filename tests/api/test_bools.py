"""Bools from outside are normalized to 0 or 1 for every byte value, because kernels rely on these two."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import _core, fluid
from paddle.static import Executor

BYTES = np.array([0, 1, 2, 7, 255, 128], np.uint8)


def ones(x) -> list[int]:
    """The elements as integers, by several kernels."""
    t = x if isinstance(x, paddle.Tensor) else paddle.to_tensor(np.asarray(x))
    as_int = _core.ops.cast(t, in_dtype=0, out_dtype=2).numpy().tolist()
    again = _core.ops.concat([t, t], axis=0)
    assert _core.ops.cast(again, in_dtype=0, out_dtype=2).numpy().tolist() == 2 * as_int
    assert _core.ops.logical_not(t).numpy().view(np.uint8).tolist() == [1 - v for v in as_int]
    return as_int


@pytest.mark.parametrize("op", ["load", "load_combine"])
def test_files(op, tmp_path):
    path = tmp_path / "file"
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()) as _, fluid.scope_guard(fluid.Scope()):
            main = paddle.static.default_main_program().global_block()
            x = paddle.static.data("x", [-1], "bool")
            main.append_op(type="save", inputs={"X": [x]}, outputs={}, attrs={"file_path": str(path)})
            Executor().run(feed={"x": BYTES != 0}, fetch_list=[])
            content = path.read_bytes()
            path.write_bytes(content[: -len(BYTES)] + BYTES.tobytes())
            loading = paddle.static.Program()
            out = loading.global_block().create_var(name="out", dtype="bool", persistable=True)
            loading.global_block().append_op(type=op, inputs={}, outputs={"Out": [out]}, attrs={"file_path": str(path)})
            total = loading.global_block().create_var(name="total", dtype="int32")
            attrs = {"in_dtype": 0, "out_dtype": 2}
            loading.global_block().append_op(type="cast", inputs={"X": [out]}, outputs={"Out": [total]}, attrs=attrs)
            got, there = Executor().run(loading, fetch_list=["total", "out"])
    finally:
        paddle.disable_static()
    assert got.tolist() == [0, 1, 1, 1, 1, 1] and there.view(np.uint8).tolist() == got.tolist()


def test_arrays():
    assert ones(BYTES.view(bool)) == [0, 1, 1, 1, 1, 1]
    t = fluid.LoDTensor()
    t.set(BYTES.view(bool), fluid.CPUPlace())
    assert np.array(t).view(np.uint8).tolist() == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("keep", [True, False])
def test_a_view_that_is_written(keep):
    """numpy writes other bytes into a tensor's memory through a view, which may still exist when they are read."""
    scope = fluid.Scope()
    t = scope.var("x").get_tensor()
    t.set(np.zeros(6, bool), fluid.CPUPlace())
    view = np.asarray(memoryview(t)).view(np.uint8)
    view[:] = BYTES
    if not keep:
        del view
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        block = program.global_block()
        block.create_var(name="x", dtype="bool", shape=[6], persistable=True)
        block.create_var(name="y", dtype="int32")
        attrs = {"in_dtype": 0, "out_dtype": 2}
        block.append_op(type="cast", inputs={"X": ["x"]}, outputs={"Out": ["y"]}, attrs=attrs)
        (got,) = Executor().run(program, fetch_list=["y"], scope=scope)
    finally:
        paddle.disable_static()
    assert got.tolist() == [0, 1, 1, 1, 1, 1]


def test_dlpack():

    own = BYTES.copy()
    there = own.view(bool)
    t = paddle.utils.dlpack.from_dlpack(there.__dlpack__())
    assert ones(t) == [0, 1, 1, 1, 1, 1]
    shared = np.zeros(6, bool)
    t = paddle.utils.dlpack.from_dlpack(shared.__dlpack__())
    shared.view(np.uint8)[:] = BYTES
    assert ones(t) in ([0, 1, 1, 1, 1, 1], [0] * 6)
    frozen = np.zeros(6, bool)
    frozen.flags.writeable = False
    try:
        t = _core.tensor_from_dlpack(frozen.__dlpack__(max_version=(1, 0)))
    except (BufferError, TypeError):
        return  # this numpy exports no read-only memory
    frozen.flags.writeable = True
    frozen.view(np.uint8)[:] = BYTES
    assert ones(t) == [0] * 6
