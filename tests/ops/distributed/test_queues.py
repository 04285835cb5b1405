"""queue_generator, enqueue and dequeue."""

import threading
import uuid

import numpy as np
import paddle
import pytest
from paddle import _core, fluid


@pytest.fixture
def name():
    before = fluid.get_flags(["FLAGS_rpc_deadline", "FLAGS_rpc_retry_times"])
    fluid.set_flags({"FLAGS_rpc_deadline": 50, "FLAGS_rpc_retry_times": 0})
    yield f"queue_{uuid.uuid4().hex}"
    fluid.set_flags(before)


def taken(name) -> np.ndarray:
    """The result of dequeue in a Program."""
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        block = program.global_block()
        out = block.create_var(name="out", dtype="float32")
        block.append_op(type="dequeue", outputs={"Out": [out]}, attrs={"queue_name": name})
        return paddle.static.Executor().run(program, fetch_list=["out"])[0]
    finally:
        paddle.disable_static()


@pytest.mark.operators("queue_generator", "enqueue", "dequeue")
def test_order_and_timeouts(name) -> None:
    ops = _core.ops
    ops.queue_generator(names=[name], capacity=2)
    ops.queue_generator(names=[name], capacity=7)  # it exists already
    for value in (1.0, 2.0):
        ops.enqueue(paddle.to_tensor([value]), queue_name=name)
    with pytest.raises(RuntimeError, match=f"enqueue: the queue '{name}' has been full for .*FLAGS_rpc_deadline"):
        ops.enqueue(paddle.to_tensor([3.0]), queue_name=name)
    assert [taken(name)[0] for _ in range(2)] == [1.0, 2.0]
    with pytest.raises(RuntimeError, match=f"operator dequeue: the queue '{name}' has been empty for"):
        taken(name)


def test_one_thread_waits_for_another(name) -> None:
    fluid.set_flags({"FLAGS_rpc_deadline": 20000})
    paddle.enable_static()
    try:
        startup, put, take = (paddle.static.Program() for _ in range(3))
        for program in (startup, put, take):
            program.global_block().create_var(name=name, persistable=True, type=_core.VarDesc.VarType.RAW)
        startup.global_block().append_op(type="queue_generator", attrs={"names": [name]})
        x = put.global_block().create_var(name="x", shape=[2, 3], dtype="float32")
        put.global_block().append_op(type="enqueue", inputs={"X": x}, attrs={"queue_name": name})
        out = take.global_block().create_var(name="out", shape=[2, 3], dtype="float32")
        take.global_block().append_op(type="dequeue", outputs={"Out": [out]}, attrs={"queue_name": name})
        run, found = paddle.static.Executor().run, []
        run(startup)
        scope = paddle.static.global_scope()
        taker = threading.Thread(
            target=lambda: found.extend(paddle.static.Executor().run(take, fetch_list=["out"], scope=scope))
        )
        taker.start()
        value = np.arange(6, dtype="float32").reshape(2, 3)
        run(put, feed={"x": value})
        taker.join(30)
        np.testing.assert_array_equal(found[0], value)
    finally:
        paddle.disable_static()


def test_wrong_arguments(name) -> None:
    ops = _core.ops
    with pytest.raises(RuntimeError, match="no queue"):
        ops.enqueue(paddle.to_tensor([1.0]), queue_name=name)
    with pytest.raises(ValueError, match="capacity"):
        ops.queue_generator(names=[name], capacity=0)
    with pytest.raises(ValueError, match="names"):
        ops.queue_generator(names=[])
