"""create_custom_reader: batches of another reader, processed by the operators of a block."""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest


@pytest.mark.operators("create_custom_reader")
@pytest.mark.filterwarnings("ignore:fluid.layers.py_reader is deprecated")
def test_batches_are_processed_before_they_are_read():
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            reader = fluid.layers.py_reader(2, [[-1, 2], [-1, 1]], ["float32", "int64"], use_double_buffer=False)
            block = main._create_block()
            given = [block.create_var(name=n, shape=[-1, 2], dtype=t) for n, t in (("a", "float32"), ("b", "int64"))]
            made = [block.create_var(name=n, dtype="float32") for n in ("twice", "sum")]
            block.append_op(type="scale", inputs={"X": given[0]}, outputs={"Out": made[0]}, attrs={"scale": 2.0})
            block.append_op(type="mean", inputs={"X": made[0]}, outputs={"Out": made[1]})
            main._rollback()
            root = main.global_block()
            worked = root.create_var(name="worked", type=fluid.core.VarDesc.VarType.READER)
            names = {"source_var_names": ["a", "b"], "sink_var_names": ["twice", "sum", "b"]}
            root.append_op(
                type="create_custom_reader",
                inputs={"UnderlyingReader": reader},
                outputs={"Out": [worked]},
                attrs={"sub_block": block, **names},
            )
            outs = [root.create_var(name=f"out{i}", shape=[-1, 2], dtype=t) for i, t in enumerate(("float32",) * 2)]
            outs.append(root.create_var(name="label", shape=[-1, 1], dtype="int64"))
            root.append_op(type="read", inputs={"Reader": [worked]}, outputs={"Out": outs}, attrs={"infer_out": False})
        reader.decorate_tensor_provider(lambda: iter([[np.float32([[1, 2]]), np.int64([[3]])]]))
        exe = fluid.Executor()
        exe.run(startup)
        reader.start()
        got = exe.run(main, fetch_list=outs)
        assert [v.tolist() for v in got] == [[[2, 4]], [3], [[3]]]
        with pytest.raises(fluid.core.EOFException):
            exe.run(main, fetch_list=outs)
    finally:
        paddle.disable_static()
