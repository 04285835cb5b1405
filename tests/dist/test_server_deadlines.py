"""A trainer's waits for servers end by FLAGS_rpc_deadline, with an error that names both and the operation."""

from __future__ import annotations

import re
import socket
import threading
import time

import numpy as np
import paddle
import pytest
from paddle import _core
from test_server_blocks import Server, free_endpoint, run

FLAGS = {"FLAGS_rpc_deadline": 150, "FLAGS_rpc_retry_times": 1}


@pytest.fixture(autouse=True)
def short():
    """Each wait is over after two attempts of 150 ms."""
    before = paddle.fluid.get_flags(list(FLAGS))
    paddle.enable_static()
    paddle.fluid.set_flags(FLAGS)
    yield
    try:
        _core.dist.complete_servers()
    except RuntimeError:
        pass  # the server is not there
    paddle.fluid.set_flags(before)
    paddle.disable_static()


@pytest.fixture(params=["absent", "silent"])
def dead_endpoint(request):
    """An endpoint without a listener, or with one that never answers."""
    if request.param == "absent":
        yield free_endpoint()
        return
    with socket.create_server(("127.0.0.1", 0)) as s:
        yield f"127.0.0.1:{s.getsockname()[1]}"


def send_and_wait(endpoint: str, trainer: int = 0):
    attrs = {"endpoints": [endpoint], "trainer_id": trainer}

    def fill(block):
        block.append_op(type="send", inputs={"X": "g"}, outputs={"Out": []}, attrs=attrs)
        block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)

    run(fill, [], {"g": np.zeros(4, "float32")})


def receive(endpoint: str):
    def fill(block):
        block.create_var(name="w", dtype="float32")
        block.append_op(type="recv", inputs={"X": []}, outputs={"Out": "w"}, attrs={"epmap": [endpoint]})

    run(fill, ["w"])


def look_up(endpoint: str):
    def fill(block):
        block.create_var(name="table", shape=[10, 3], dtype="float32", persistable=True)
        block.append_op(type="fake_init", inputs={}, outputs={"Out": "table"}, attrs={"shape": [10, 3]})
        block.create_var(name="rows", dtype="float32")
        attrs = {"table_names": ["table"], "endpoints": [endpoint]}
        block.append_op(
            type="distributed_lookup_table",
            inputs={"Ids": "ids", "W": "table"},
            outputs={"Outputs": "rows"},
            attrs=attrs,
        )

    run(fill, ["rows"], {"ids": np.zeros((2, 1), "int64")})


@pytest.mark.operators("send_barrier", "recv", "distributed_lookup_table")
@pytest.mark.parametrize(
    "wait, what",
    [
        (send_and_wait, "operator send_barrier: trainer 0: the end of a step, sending g at the server"),
        (receive, "operator recv: trainer 0: receiving w at the server"),
        (look_up, "operator distributed_lookup_table: trainer 0: looking up rows of table at the server"),
    ],
)
def test_a_server_that_does_not_answer(dead_endpoint, wait, what) -> None:
    since = time.monotonic()
    with pytest.raises(RuntimeError) as raised:
        wait(dead_endpoint)
    assert time.monotonic() - since < 30
    text = str(raised.value)
    assert f"{what} {dead_endpoint} did not finish within" in text
    assert "FLAGS_rpc_deadline is 150 ms, FLAGS_rpc_retry_times 1" in text
    assert _core.dist.server_waits() == ""


def test_another_trainer_that_does_not_come_is_named() -> None:
    def two(program):
        block = program._create_block(0)
        g = program.global_block().create_var(name="g", shape=[4], dtype="float32")
        return {"Fanin": 2, "optimize_blocks": [block], "grad_to_block_id": [f"g:{block.idx}"], "received": [g]}

    server = Server(two)
    paddle.fluid.set_flags({"FLAGS_rpc_deadline": 1500})
    with pytest.raises(RuntimeError, match=r"waiting for the server, which is waiting for trainer 1 for \d"):
        send_and_wait(server.endpoint)
    # the repeated push is ignored; the other trainer arrives, and both continue
    other = threading.Thread(target=send_and_wait, args=(server.endpoint, 1))
    other.start()
    other.join(30)
    assert not other.is_alive()
    _core.dist.complete_servers()
    server.end()


def test_the_report_names_the_wait() -> None:
    paddle.fluid.set_flags({"FLAGS_rpc_deadline": 2000})
    endpoint = free_endpoint()
    caught = []

    def wait():
        try:
            receive(endpoint)
        except RuntimeError as e:
            caught.append(e)

    waiter = threading.Thread(target=wait)
    waiter.start()
    line, end = "", time.monotonic() + 10
    while not line and time.monotonic() < end:
        line = _core.dist.server_waits()
        time.sleep(0.01)
    assert re.fullmatch(rf"trainer 0: receiving w at the server {endpoint}: for \d+\.\d s\n", line)
    assert line in paddle.distributed.report()
    waiter.join(30)
    assert caught


@pytest.mark.parametrize("flag, value", [("FLAGS_rpc_deadline", 0), ("FLAGS_rpc_retry_times", -1)])
def test_flags_out_of_their_range(flag, value) -> None:
    paddle.fluid.set_flags({flag: value})
    with pytest.raises(ValueError, match=f"{flag} must be at least"):
        receive(free_endpoint())
    paddle.fluid.set_flags(FLAGS)


def test_a_trainer_that_never_connects_is_named(monkeypatch) -> None:
    def two(program):
        block = program._create_block(0)
        return {"Fanin": 2, "optimize_blocks": [block], "grad_to_block_id": [], "received": []}

    monkeypatch.setenv("OAR_INIT_TIMEOUT", "2")
    server = Server(two)
    waits = f"the server {server.endpoint}: 0 steps; waiting for trainer 0, trainer 1: for "
    while server.thread.is_alive() and waits not in _core.dist.server_waits():
        time.sleep(0.005)
    server.thread.join(60)
    assert re.search(
        rf"operator listen_and_serv: the server {server.endpoint} did not finish within 2\.0 s; "
        r"waiting for trainer 0, trainer 1, never seen since the server began",
        str(server.error),
    ), server.error
    assert _core.dist.server_waits() == ""
