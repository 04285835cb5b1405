"""Rings created by a Program: c_gen_nccl_id, c_comm_init, and collectives in them."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from launching import clean_environment
from paddle import static
from paddle.distributed.launch.ports import free


def make(ring: int, rank: int, endpoints: list[str]) -> None:
    """Joins the ring by a Program, as a startup program does."""
    program = static.Program()
    block = program.global_block()
    id = block.create_var(name="id", persistable=True, type=paddle.fluid.core.VarDesc.VarType.RAW)
    others = endpoints[:rank] + endpoints[rank + 1 :]
    block.append_op(
        type="c_gen_nccl_id",
        outputs={"Out": id},
        attrs={"rank": rank, "endpoint": endpoints[rank], "other_endpoints": others},
    )
    block.append_op(
        type="c_comm_init", inputs={"X": id}, attrs={"nranks": len(endpoints), "rank": rank, "ring_id": ring}
    )
    static.Executor(paddle.CPUPlace()).run(program)


def total(ring: int, value: float) -> float:
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [1], "float32")
        program.global_block().append_op(
            type="c_allreduce_sum",
            inputs={"X": x},
            outputs={"Out": x},
            attrs={"ring_id": ring, "use_calc_stream": True},
        )
    feed = {"x": np.full([1], value, "float32")}
    return static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=["x"])[0].item()


def several(endpoints: list[str]) -> list[float]:
    """Two rings of three ranks one after the other, then one of the last two, whose first rank is another."""
    me = dist.get_rank()
    paddle.enable_static()
    try:
        for ring in (31, 32):
            make(ring, me, endpoints)
        found = [total(31, me + 1.0), total(32, 10.0 * me)]
        if me:
            make(33, me - 1, endpoints[1:])
            found.append(total(33, 1.0))
        return found
    finally:
        paddle.disable_static()


@pytest.mark.operators("c_gen_nccl_id", "c_comm_init")
def test_rings(three):
    found = three.run(several, [f"127.0.0.1:{p}" for p in free(3)])
    assert found == [[6.0, 30.0], [6.0, 30.0, 2.0], [6.0, 30.0, 2.0]]


@pytest.mark.parametrize(
    ("body", "env", "said"),
    [
        (
            "make(1, 0, ['127.0.0.1:1', 'nowhere'])",
            {},
            "ValueError: .*operator c_gen_nccl_id: an endpoint must be ip:port",
        ),
        ("make(1, 0, ['127.0.0.1:1'])", {"OAR_JOB_TOKEN": "12x"}, "ValueError: .*hexadecimal"),
        (
            "make(1, 0, [E, E])",
            {"OAR_INIT_TIMEOUT": "0.3"},
            "operator c_gen_nccl_id: delivering a message to 127.0.0.1",
        ),
        ("make(1, 1, [E, E])", {"OAR_INIT_TIMEOUT": "0.3"}, "operator c_gen_nccl_id: the wait for a message at 127.0"),
        ("make(-1, 0, [E])", {}, "ValueError: .*operator c_comm_init: ring_id must not be negative"),
        ("threading.Timer(0.5, os.kill, (os.getpid(), 2)).start(); make(1, 1, [E, E])", {}, "KeyboardInterrupt"),
    ],
)
def test_rings_that_cannot_be_made(body, env, said):
    text = "import os, threading, paddle; from test_rings import make; paddle.enable_static(); "
    text += f"E = '127.0.0.1:{free(1)[0]}'; {body}"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=clean_environment(**env),
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert re.search(said, done.stderr), done.stderr


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def made_and_dropped() -> tuple[int, int]:
    """The numbers of open files before and after many used groups."""

    def use():
        group = dist.new_group([0, 1, 2])
        x = paddle.ones([4])
        dist.all_reduce(x, group=group)
        assert x.numpy()[0] == 3.0

    use()
    dist.barrier()
    before = open_files()
    for _ in range(200):
        use()
    dist.barrier()
    deadline = time.monotonic() + 10
    while open_files() > before + 8 and time.monotonic() < deadline:
        time.sleep(0.05)  # threads of groups that are ending
    return before, open_files()


def numbers_keep_groups() -> float:
    number = dist.new_group([0, 2, 1]).id
    gc.collect()
    x = paddle.ones([4])
    dist.all_reduce(x, group=number)
    return float(x.numpy()[0])


def test_groups_end_with_their_last_user(three):
    for before, after in three.run(made_and_dropped):
        assert after <= before + 8
    assert three.run(numbers_keep_groups) == [3.0, 3.0, 3.0]


def test_another_token_is_reported_on_both_sides(capfd):
    d = paddle._core.dist
    store = d.Store.host("127.0.0.1:0", "job", d.fresh_token())
    with pytest.raises(RuntimeError, match="the token differs"):
        d.Store.connect(store.address, "job", b"another", timeout=5.0)
    # A thread of the store reports, which the refused process does not wait for.
    messages, deadline = "", time.monotonic() + 10
    while "the token differs" not in messages and time.monotonic() < deadline:
        time.sleep(0.01)
        messages += capfd.readouterr().err
    assert f"{store.address} has refused a connection" in messages and "the token differs" in messages
