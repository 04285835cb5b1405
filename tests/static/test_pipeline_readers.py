"""A section of a pipeline with a reader: each micro-batch is a batch of the reader."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest

PARTS = 2


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        with fluid.scope_guard(fluid.Scope()):
            yield
    paddle.disable_static()


def batches(count):
    r = np.random.RandomState(3)
    return [tuple(r.uniform(-1, 1, [4, n]).astype("float32") for n in (3, 1)) for _ in range(count)]


def loss_of(x, y):
    half = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
    out = fluid.layers.fc(x, 1, param_attr=half, bias_attr=False)
    return fluid.layers.mean(fluid.layers.square_error_cost(out, y))


def test_each_part_is_a_batch_of_the_reader():
    with fluid.device_guard("gpu:0"):
        x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1])
        loader = fluid.io.DataLoader.from_generator([x, y], capacity=4, use_double_buffer=True, iterable=False)
        loss = loss_of(x, y)
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    main._pipeline_opt = {"local_rank": 0, "schedule_mode": 0}
    fluid.optimizer.PipelineOptimizer(fluid.optimizer.SGD(0.1), PARTS).minimize(loss)
    section = main._pipeline_opt["section_program"]["program"].global_block()
    assert "create_py_reader" in [op.type for op in section.ops]
    reader = next(op for op in section.ops if op.type == "read").input("Reader")[0]
    assert section.var(reader).type == fluid.core.VarDesc.VarType.READER
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    given = batches(6)
    loader.set_batch_generator(lambda: iter(given))
    loader.start()
    found = [np.asarray(exe.run(main, fetch_list=[loss.name])[0]).mean() for _ in range(3)]
    with pytest.raises(fluid.core.EOFException):
        exe.run(main, fetch_list=[loss.name])

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1])
        loss = loss_of(x, y)
        # the gradients of the micro-batches are summed
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe.run(fluid.default_startup_program())
        want = []
        for a, b in zip(given[::2], given[1::2], strict=True):
            feed = {"x": np.concatenate([a[0], b[0]]), "y": np.concatenate([a[1], b[1]])}
            want.append(exe.run(feed=feed, fetch_list=[loss])[0].item())
    np.testing.assert_allclose(found, want, rtol=1e-5)
