"""Asynchronous trainers without a Communicator of the user's: the rewritten Program, and the servers' mode."""

from __future__ import annotations

import paddle
import pytest
from paddle import fluid
from paddle.distributed.ps import async_communication
from paddle.distributed.ps.config import DistributedMode
from paddle.fluid.communicator import Communicator

SERVERS = "127.0.0.1:6001,127.0.0.1:6002"


@pytest.fixture(autouse=True)
def static(monkeypatch):
    monkeypatch.setattr(async_communication, "_sync_ops", [False])
    paddle.enable_static()
    yield
    paddle.disable_static()


def transpiled(**how):
    main, startup = paddle.static.Program(), paddle.static.Program()
    config = fluid.DistributeTranspilerConfig()
    config.enable_dc_asgd = how.pop("dc", False)
    with paddle.static.program_guard(main, startup), fluid.unique_name.guard():
        rate = fluid.layers.exponential_decay(0.1, 4, 0.5)
        loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 256]), 128))
        fluid.optimizer.SGD(rate).minimize(loss)
    t = fluid.DistributeTranspiler(config)
    t.transpile(0, main, SERVERS, 2, startup_program=startup, **how)
    server = t.get_pserver_program("127.0.0.1:6001")
    return server, t.get_trainer_program(wait_port=False)


@pytest.mark.parametrize(("sync", "mode"), [(True, DistributedMode.SYNC), (False, DistributedMode.HALF_ASYNC)])
def test_the_mode_of_servers_is_that_of_trainers(sync, mode) -> None:
    """Servers that wait for barriers of trainers without barriers would never update."""
    server, program = transpiled(sync_mode=sync)
    serving = server.global_block().ops[-1]
    assert (serving.type, serving.attr("distributed_mode")) == ("listen_and_serv", mode)
    assert ("send_barrier" in [op.type for op in program.global_block().ops]) == sync
    assert (program._async_communication is None) == sync


def test_the_exchange_is_left_to_a_communicator() -> None:
    _, program = transpiled(sync_mode=False)
    before = str(program)
    rewritten = program._async_communication.rewritten()
    kinds = [op.type for op in rewritten.global_block().ops]
    assert "split_byref" not in kinds and "concat" not in kinds
    assert {"split_byref", "concat"} <= {op.type for op in program.global_block().ops}
    assert str(program) == before and program._async_communication.rewritten() is rewritten
    found = program._async_communication.communication()
    weights = found.send["fc_0.w_0@GRAD"]
    assert weights.split_varnames() == ["fc_0.w_0@GRAD.block0", "fc_0.w_0@GRAD.block1"]
    assert sorted(weights.split_endpoints()) == SERVERS.split(",") and weights.sections() == [128, 128]
    assert found.recv["fc_0.w_0"].split_varnames() == ["fc_0.w_0.block0", "fc_0.w_0.block1"]
    (counter,) = [c for c in found.send.values() if c.everywhere]
    assert sorted(counter.split_endpoints()) == SERVERS.split(",")
    assert set(found.recv) == {"fc_0.w_0", "fc_0.b_0"}


def test_user_communicator_and_sync_ops(monkeypatch) -> None:
    _, program = transpiled(sync_mode=False)
    scope = fluid.global_scope()
    own = Communicator(program)
    assert program._async_communication.communicator is own and not own.is_running()
    assert program._async_communication.to_run(fluid.Scope()) is program  # parameters are received into another scope
    assert program._async_communication.to_run(scope) is program  # not started
    monkeypatch.setenv("OAR_PS_BACKGROUND", "1")
    assert fluid.communicator.resume_steps([], 0) == 0
    assert program._async_communication.to_run(scope) is program
    assert transpiled(sync_mode=False, dc=True)[1]._async_communication is None
    assert program.clone()._async_communication is None
