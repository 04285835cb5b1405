"""The reference page of DistributeTranspiler: its samples, each parameter, each method."""

from __future__ import annotations

import paddle
import paddle.fluid as fluid
import pytest

SERVERS = "192.168.0.1:6174,192.168.0.2:6174"


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield
    paddle.disable_static()


def train(decay: bool = False, **more) -> fluid.Variable:
    """The sample's model, in the default Programs."""
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    y_predict = fluid.layers.fc(input=x, size=1, act=None)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=y_predict, label=y))
    rate = fluid.layers.piecewise_decay([3, 6], [0.1, 0.05, 0.01]) if decay else 0.001
    fluid.optimizer.Adam(learning_rate=rate, **more).minimize(loss)
    return loss


def kinds(program, block: int = 0) -> list[str]:
    return [op.type for op in program.block(block).ops]


def text(program) -> list:
    return [[(op.type, op.input_arg_names, op.output_arg_names) for op in b.ops] for b in program.blocks]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("clip", [None, fluid.clip.GradientClipByValue(0.1), fluid.clip.GradientClipByGlobalNorm(0.1)])
def test_programs_are_the_same_in_any_order_and_again(sync, clip) -> None:
    found = []
    for first in ("servers", "trainer"):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            train(decay=True, grad_clip=clip, regularization=fluid.regularizer.L2Decay(0.01))
            t = fluid.DistributeTranspiler()
            t.transpile(0, pservers=SERVERS, trainers=2, sync_mode=sync)
            texts: dict = {}
            for role in (first, "trainer", "servers", "trainer"):
                if role == "trainer":
                    now = {role: [text(t.get_trainer_program(wait_port=False)), text(fluid.default_startup_program())]}
                else:
                    now = {at: list(map(text, t.get_pserver_programs(at))) for at in SERVERS.split(",")}
                for key, value in now.items():
                    assert texts.setdefault(key, value) == value
            found.append(texts)
    assert found[0] == found[1]


def test_sample_of_servers_and_trainers() -> None:
    train()
    t = fluid.DistributeTranspiler()
    assert t.transpile(0, pservers=SERVERS, trainers=4) is None
    current = SERVERS.split(",")[0]
    main = t.get_pserver_program(current)
    startup = t.get_startup_program(current, main)
    assert kinds(main) == ["listen_and_serv"] and main.global_block().ops[0].attr("Fanin") == 4
    # a block for each held parameter (one of two), with only its update
    assert [kinds(main, 1)[i] for i in (0, 1, -1)] == ["sum", "scale", "adam"] and main.num_blocks == 2
    both = t.get_pserver_programs(current)
    assert type(both) is tuple and list(map(text, both)) == [text(main), text(startup)]
    assert (
        text(t.get_startup_program(current))
        == text(t.get_startup_program(current, main, fluid.Program()))
        == text(startup)
    )
    trainer = t.get_trainer_program(wait_port=False)
    assert trainer is fluid.default_main_program() and "adam" not in kinds(trainer)
    for i, op in enumerate(trainer.global_block().ops):
        if op.type == "send":  # after the operator of the gradient
            assert any(op.input("X")[0] in before.output_arg_names for before in trainer.global_block().ops[:i])
    assert kinds(trainer).count("send") == kinds(trainer).count("recv") == 2


def test_sample_of_nccl2() -> None:
    loss = train()
    config = fluid.DistributeTranspilerConfig()
    config.mode, config.wait_port = "nccl2", False
    t = fluid.DistributeTranspiler(config=config)
    t.transpile(trainer_id=0, trainers=SERVERS, current_endpoint="192.168.0.1:6174")
    assert kinds(fluid.default_startup_program())[-1] == "gen_nccl_id"
    fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, num_trainers=2, trainer_id=0)


def test_sample_of_asynchronous_training() -> None:
    train()
    t = fluid.DistributeTranspiler()
    t.transpile(
        trainer_id=0,
        pservers="127.0.0.1:7000,127.0.0.1:7001",
        trainers=2,
        sync_mode=False,
        current_endpoint="127.0.0.1:7000",
    )
    assert not {"send_barrier", "fetch_barrier"} & set(kinds(t.get_trainer_program(wait_port=False)))
    assert fluid.default_main_program()._ps_endpoint == "127.0.0.1:7000"


def test_given_programs_are_rewritten() -> None:
    train()
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        fluid.DistributeTranspiler().transpile(0, program=main, pservers=SERVERS, trainers=2, startup_program=startup)
        assert not kinds(fluid.default_main_program()) + kinds(fluid.default_startup_program())
    assert "send" in kinds(main) and "recv" in kinds(startup)


def test_bad_arguments() -> None:
    train()
    t = fluid.DistributeTranspiler()
    server = SERVERS.split(",")[0]
    for early in (t.get_trainer_program, lambda: t.get_pserver_program(server), lambda: t.get_startup_program(server)):
        with pytest.raises(ValueError, match="call transpile first"):
            early()
    with pytest.raises(TypeError, match="must be the number of trainers, got '4'"):
        t.transpile(0, pservers=SERVERS, trainers="4")
    for kind in ("nccl2", "collective"):
        t.config.mode, t.config.collective_mode = kind, "grad_allreduce"
        with pytest.raises(TypeError, match="str of endpoints, got 2"):
            t.transpile(0, trainers=2, current_endpoint=server)
    t.config.mode = "pserver"
    t.transpile(0, pservers=SERVERS, trainers=2)
    with pytest.raises(ValueError, match="1.1.1.1:1 is not among"):
        t.get_pserver_program("1.1.1.1:1")
