"""Servers and trainers as threads of one process, for Programs built by hand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import numpy as np
import paddle
import pytest
from paddle import _core

ROWS = _core.VarDesc.VarType.SELECTED_ROWS


def free_endpoint() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


@pytest.fixture
def static():
    paddle.enable_static()
    yield
    _core.dist.complete_servers()
    paddle.disable_static()


class Server:
    """A server in a thread; `make` appends its blocks and returns the attributes of listen_and_serv."""

    def __init__(self, make: Callable, **values: np.ndarray) -> None:
        self.endpoint, self.error = free_endpoint(), None
        program, self.scope = paddle.static.Program(), paddle.static.Scope()
        for name, value in values.items():
            program.global_block().create_var(name=name, shape=value.shape, dtype=str(value.dtype), persistable=True)
            self.scope.var(name).get_tensor().set(value, paddle.CPUPlace())
        attrs = {"endpoint": self.endpoint, "Fanin": 1, **make(program)}
        program.global_block().append_op(
            type=attrs.pop("type", "listen_and_serv"), inputs={"X": attrs.pop("received", [])}, outputs={}, attrs=attrs
        )
        self.program = program
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        try:
            paddle.static.Executor(paddle.CPUPlace()).run(self.program, scope=self.scope)
        except Exception as e:  # set by `end`
            self.error = e

    def value(self, name: str) -> np.ndarray:
        return np.asarray(self.scope.find_var(name).get_tensor())

    def end(self) -> None:
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.error:
            raise self.error


def run(fill: Callable, fetch: list[str], feed: dict | None = None) -> list[np.ndarray]:
    """Runs a trainer's Program once."""
    program = paddle.static.Program()
    block = program.global_block()
    for name, value in (feed or {}).items():
        block.create_var(name=name, shape=value.shape, dtype=str(value.dtype))
    fill(block)
    return paddle.static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=fetch)


def one_lookup(program) -> dict:
    block = program._create_block(0)
    top = program.global_block()
    ids = top.create_var(name="ids", shape=[-1, 1], dtype="int64")
    found = top.create_var(name="found", shape=[-1, 3], dtype="float32")
    block.append_op(type="lookup_table", inputs={"W": "table", "Ids": ids}, outputs={"Out": found})
    return {"optimize_blocks": [program._create_block(0)], "prefetch_var_name_to_block_id": [f"ids:{block.idx}"]}


TABLE = np.arange(30, dtype="float32").reshape(10, 3)


@pytest.mark.operators("prefetch")
def test_prefetch_runs_the_block_of_its_ids(static) -> None:
    server = Server(one_lookup, table=TABLE)

    def fill(block):
        block.create_var(name="out", dtype="float32")
        block.append_op(
            type="prefetch", inputs={"X": "ids"}, outputs={"Out": "out"}, attrs={"epmap": [server.endpoint]}
        )

    ids = np.array([[4], [0], [9]])
    (found,) = run(fill, ["out"], {"ids": ids})
    np.testing.assert_array_equal(found, TABLE[ids.ravel()])
    _core.dist.complete_servers()
    server.end()


def nothing(program) -> dict:
    return {"optimize_blocks": [program._create_block(0)]}


@pytest.mark.operators("distributed_lookup_table")
@pytest.mark.parametrize("turns", [False, True])
def test_lookups_split_ids_over_servers(static, turns) -> None:
    """Repeated ids, two lists of them, and a padding id that is not looked up; by blocks of rows or by modulo."""
    # by modulo a server keeps global ids
    tables = [TABLE, TABLE] if turns else [TABLE[:5], TABLE[5:]]
    servers = [Server(nothing, table=table) for table in tables]
    attrs = {"endpoints": [s.endpoint for s in servers], "table_names": ["table"] * 2, "padding_idx": 3}

    def fill(block):
        block.create_var(name="table", shape=[10, 3], dtype="float32", persistable=True)
        block.append_op(type="fake_init", inputs={}, outputs={"Out": "table"}, attrs={"shape": [10, 3]})
        for out in ("x", "y"):
            block.create_var(name=out, dtype="float32")
        block.append_op(
            type="distributed_lookup_table",
            inputs={"Ids": ["a", "b"], "W": "table"},
            outputs={"Outputs": ["x", "y"]},
            attrs={**attrs, "is_distributed": turns},
        )

    a, b = np.array([[9], [3], [0], [9], [4]]), np.array([[5], [0], [3], [8]])
    for found, ids in zip(run(fill, ["x", "y"], {"a": a, "b": b}), (a, b), strict=True):
        np.testing.assert_array_equal(found, np.where(ids == 3, 0, TABLE[ids.ravel()]))
    with pytest.raises(RuntimeError if turns else IndexError, match="10 is not within"):
        run(fill, ["x", "y"], {"a": a, "b": b * 2})
    found, _ = run(fill, ["x", "y"], {"a": np.full((2, 1), 3), "b": b})
    np.testing.assert_array_equal(found, np.zeros((2, 3)))
    _core.dist.complete_servers()
    for server in servers:
        server.end()


def test_what_a_server_does_not_know_is_refused_by_name(static) -> None:
    server = Server(one_lookup, table=TABLE)

    def fetch(name):
        def fill(block):
            block.create_var(name=name, dtype="float32")
            block.append_op(type="recv", inputs={"X": []}, outputs={"Out": name}, attrs={"epmap": [server.endpoint]})

        return run(fill, [name])[0]

    with pytest.raises(RuntimeError, match="no variable 'other'"):
        fetch("other")
    np.testing.assert_array_equal(fetch("table"), TABLE)  # and continues

    def send(name, value):
        def fill(block):
            attrs = {"endpoints": [server.endpoint]}
            block.append_op(type="send", inputs={"X": name}, outputs={"Out": []}, attrs=attrs)
            block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)

        run(fill, [], {name: value})

    with pytest.raises(RuntimeError, match="has no variable unknown"):
        send("unknown", np.zeros(4, "float32"))
    _core.dist.complete_servers()
    server.end()


@pytest.mark.operators("fl_listen_and_serv")
def test_a_federation_fetches_trains_and_sends(static) -> None:
    def average(program) -> dict:
        new = program.global_block().create_var(name="new", shape=[3], dtype="float32", persistable=True)
        w, block = program.global_block().var("w"), program._create_block(0)
        block.append_op(type="scale", inputs={"X": new}, outputs={"Out": w}, attrs={"scale": 2.0})
        return {"type": "fl_listen_and_serv", "received": [new], "optimize_blocks": [block]}

    server = Server(average, w=np.ones(3, "float32"))

    def fetch(block):
        block.create_var(name="w", dtype="float32")
        block.append_op(type="recv", inputs={"X": []}, outputs={"Out": "w"}, attrs={"epmap": [server.endpoint]})

    def send(block):
        attrs = {"endpoints": [server.endpoint]}
        block.append_op(type="send", inputs={"X": "new"}, outputs={"Out": []}, attrs=attrs)
        block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)

    for want in (1, 4, 10):
        (w,) = run(fetch, ["w"])
        assert w.tolist() == [want] * 3
        run(send, [], {"new": w + 1})
    _core.dist.complete_servers()
    server.end()
