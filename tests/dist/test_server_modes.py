"""The Communicator's modes, asynchronous, half-asynchronous, synchronous and GEO, against one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
import pytest
from paddle import _core, fluid
from paddle.fluid.communicator import Communicator, LargeScaleKV
from test_parameter_server import Job, endpoints

SCRIPT = Path(__file__).with_name("ps_modes.py")
NAMES = ["async", "async+bound", "half", "sync", "geo"]


@pytest.fixture(autouse=True)
def static():
    flags = paddle.fluid.get_flags(["FLAGS_rpc_deadline", "FLAGS_rpc_retry_times"])
    paddle.enable_static()
    yield
    try:
        _core.dist.complete_servers()
    except RuntimeError:
        pass  # the server is not there
    paddle.fluid.set_flags(flags)
    paddle.disable_static()


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """The final loss of both trainers and of the single process, by name."""
    job = Job(tmp_path_factory.mktemp("modes"), SCRIPT)
    places = ";".join(endpoints(2) for _ in NAMES)
    try:
        for role in ("server", "trainer"):
            for i in range(2):
                job.start(role, i, places, NAMES, MEET=str(job.folder))
        trainers = [job.result(f"trainer{i}") for i in range(2)]
        for i in range(2):
            job.result(f"server{i}")  # servers end when the trainers are complete
        job.start("alone", 0, "", NAMES[:1])
        return trainers, job.result("alone0")[NAMES[0]]
    finally:
        job.end()


@pytest.mark.operators("send", "recv", "send_barrier", "listen_and_serv")
@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_that_of_one_process(losses, name) -> None:
    trainers, alone = losses
    for t in trainers:
        assert t[name] == pytest.approx(alone, rel=0.02)


def test_one_that_fails_says_why_and_ends() -> None:
    """Without a server the first step after the deadline raises, and nothing hangs."""
    t, program = transpiled("127.0.0.1:9")
    paddle.fluid.set_flags({"FLAGS_rpc_deadline": 50, "FLAGS_rpc_retry_times": 0})
    comm = Communicator(program, envs={"communicator_send_wait_times": 0})
    comm.start()
    with pytest.raises(RuntimeError, match="another communicator of this process is running"):
        Communicator(program).start()
    executor, feed = paddle.static.Executor(), {"x": np.ones((2, 3), "float32")}
    with pytest.raises(RuntimeError, match="the communicator has failed: .*127.0.0.1:9"):
        for _ in range(1000):
            executor.run(program, feed=feed)
    with pytest.raises(RuntimeError, match="the communicator has failed"):
        comm.stop()
    assert not comm.is_running()


def test_completion_after_a_failed_communicator() -> None:
    """The sessions are completed, too: later completions do not wait for a server that is not there."""
    _, program = transpiled("127.0.0.1:9")
    paddle.fluid.set_flags({"FLAGS_rpc_deadline": 50, "FLAGS_rpc_retry_times": 0})
    Communicator(program, envs={"communicator_send_wait_times": 0}).start()
    executor, feed = paddle.static.Executor(), {"x": np.ones((2, 3), "float32")}
    with pytest.raises(RuntimeError, match="the communicator has failed"):
        for _ in range(1000):
            executor.run(program, feed=feed)
    with pytest.raises(RuntimeError, match="the communicator has failed"):
        executor.close()
    _core.dist.complete_servers()


def test_flags_and_arguments_out_of_their_range() -> None:
    _, program = transpiled("127.0.0.1:9")
    with pytest.raises(ValueError, match="max_merge_var_num"):
        Communicator(program, envs={"communicator_max_merge_var_num": 0})
    with pytest.raises(ValueError, match="DistributedMode"):
        Communicator(7)
    with pytest.raises(ValueError, match="sends nothing by a communicator"):
        Communicator(paddle.static.Program())
    with pytest.raises(RuntimeError, match="init_with_ctx"):
        Communicator(1).start()


def transpiled(server: str):
    """A trainer's Program with a Communicator, and initialized parameters."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    config.runtime_split_send_recv = True
    with paddle.static.program_guard(main, startup):
        loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 3]), 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
    paddle.static.Executor().run(startup)
    t = fluid.DistributeTranspiler(config)
    t.transpile(0, main, server, 1, False, startup)
    return t, t.get_trainer_program(wait_port=False)


def test_tables_are_saved_and_loaded(tmp_path) -> None:
    tables = LargeScaleKV()
    block = paddle.static.Program().global_block()
    meta = "emb:Param,Moment:3,2:training:g:c,c:uniform_random&3&-1.0&1.0,fill_constant&0.5:none"
    block.append_op(type="lookup_sparse_table_init", inputs={}, outputs={}, attrs={"large_scale_metas": [meta]})
    ids = block.create_var(name="ids", shape=[-1], dtype="int64")
    outs = [block.create_var(name=n, dtype="float32") for n in ("p", "m")]
    attrs = {"tablename": "emb", "value_names": ["Param", "Moment"], "init": True}
    block.append_op(type="lookup_sparse_table_read", inputs={"Ids": ids}, outputs={"Out": outs}, attrs=attrs)
    run = paddle.static.Executor().run
    before = run(block.program, feed={"ids": np.array([9, 2**40, -1])}, fetch_list=outs)
    assert tables.size("emb") == 3
    tables.save("emb", str(tmp_path / "kept"))
    init = paddle.static.Program()
    other = meta.replace("uniform_random&3", "uniform_random&4")
    init.global_block().append_op(
        type="lookup_sparse_table_init", inputs={}, outputs={}, attrs={"large_scale_metas": [other]}
    )
    run(init)
    assert tables.size("emb") == 0
    tables.load("emb", str(tmp_path / "kept"))
    assert tables.size("emb") == 3
    block._remove_op(0)
    after = run(block.program, feed={"ids": np.array([9, 2**40, -1])}, fetch_list=outs)
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])
    with pytest.raises(RuntimeError, match="there is no table 'none'"):
        tables.size("none")
    with pytest.raises(OSError, match="cannot read"):
        tables.load("emb", str(tmp_path / "nowhere"))
