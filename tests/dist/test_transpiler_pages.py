"""What the reference page of DistributeTranspiler promises: its samples, each parameter, each method."""
from __future__ import annotations

import pytest

import paddle
import paddle.fluid as fluid

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
