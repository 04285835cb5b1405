"""A remote table: the trainer knows only its shape."""

import numpy as np
import paddle
import pytest
from paddle import fluid


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


@pytest.mark.parametrize("kind", ["lookup_table_v2", "assign", "relu"])
def test_reading_it_is_an_error(kind):
    program = fluid.Program()
    with fluid.program_guard(program):
        block = program.global_block()
        table = block.create_var(name="table", shape=[10, 3], dtype="float32", persistable=True)
        block.append_op(type="fake_init", outputs={"Out": table}, attrs={"shape": [10, 3]})
        ids = fluid.data("ids", [None], "int64")
        out = block.create_var(name="out", dtype="float32")
        inputs = {"W": table, "Ids": ids} if kind == "lookup_table_v2" else {"X": table}
        block.append_op(type=kind, inputs=inputs, outputs={"Out": out})
        read = fluid.layers.scale(out, 2.0)
    with pytest.raises(RuntimeError, match="holds no memory: only its shape was kept"):
        fluid.Executor(fluid.CPUPlace()).run(program, feed={"ids": np.array([1, 2])}, fetch_list=[read])
