"""Saving of servers' variables: recv_save, checkpoint_notify, send_and_recv, parts of saved tensors."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import _core
from test_server_blocks import Server, run, static  # noqa: F401 (a fixture)


def held(program) -> dict:
    """A server that adds what is sent to a variable."""
    top, block = program.global_block(), program._create_block(0)
    delta = top.create_var(name="delta", shape=[3, 2], dtype="float32")
    block.append_op(type="sum", inputs={"X": [top.var("part"), delta]}, outputs={"Out": top.var("part")})
    return {
        "optimize_blocks": [block],
        "distributed_mode": 1,
        "grad_to_block_id": [f"delta:{block.idx}"],
        "received": [delta],
    }


VALUES = [np.arange(6, dtype="float32").reshape(3, 2), np.arange(6, 14, dtype="float32").reshape(4, 2)]


@pytest.fixture
def servers(static):  # noqa: F811
    found = [Server(held, part=VALUES[0]), Server(lambda p: {"optimize_blocks": [p._create_block(0)]}, part=VALUES[1])]
    yield found
    for s in found:  # an unused server waits until its trainer is complete
        receive = {"epmap": [s.endpoint]}
        run(
            lambda b, a=receive: b.append_op(
                type="recv", inputs={"X": []}, outputs={"Out": b.create_var(name="part")}, attrs=a
            ),
            [],
        )
    _core.dist.complete_servers()
    for s in found:
        s.end()


def load(path, **attrs) -> np.ndarray:
    def fill(block):
        block.create_var(name="out", dtype="float32")
        kind = "sparse_tensor_load" if attrs else "load"
        block.append_op(type=kind, inputs={}, outputs={"Out": "out"}, attrs={"file_path": str(path), **attrs})

    return run(fill, ["out"])[0]


@pytest.mark.operators("recv_save", "sparse_tensor_load")
def test_recv_save(servers, tmp_path) -> None:
    attrs = {
        "file_path": str(tmp_path / "sub" / "whole"),
        "shape": [7, 2],
        "slice_shapes": ["3,2", "4,2"],
        "slice_varnames": ["part", "part"],
        "remote_varnames": ["part", "part"],
        "endpoints": [s.endpoint for s in servers],
        "is_sparse": False,
    }

    def save(**more):
        run(lambda block: block.append_op(type="recv_save", inputs={}, outputs={}, attrs=attrs | more), [])

    save()
    whole = np.concatenate(VALUES)
    np.testing.assert_array_equal(load(attrs["file_path"]), whole)
    for i in range(3):
        np.testing.assert_array_equal(load(attrs["file_path"], node_index=i, node_num=3), whole[i::3])
    with pytest.raises(ValueError, match="node_index"):
        load(attrs["file_path"], node_index=3, node_num=3)
    with pytest.raises(RuntimeError, match="exists already"):
        save(overwrite=False)
    with pytest.raises(ValueError, match="shape"):
        save(shape=[6, 2])


@pytest.mark.operators("checkpoint_notify")
def test_checkpoint_notify(servers, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FLAGS_ps_checkpoint_folder", str(tmp_path))
    attrs = {
        "endpoints": [s.endpoint for s in servers],
        "dirname": "./",
        "varname": "w",
        "slice_varnames": ["w.0", "w.1"],
        "remote_varnames": ["part", "part"],
    }

    def notify(**more):
        run(lambda block: block.append_op(type="checkpoint_notify", inputs={}, outputs={}, attrs=attrs | more), [])

    notify()
    for i in range(2):
        np.testing.assert_array_equal(load(tmp_path / "w" / f"w.{i}"), VALUES[i])
    # an earlier checkpoint is replaced, nothing else
    notify(dirname=str(tmp_path))
    (tmp_path / "w" / "mine").write_text("precious")
    with pytest.raises(RuntimeError, match="mine exists and is no checkpoint"):
        notify(slice_varnames=["mine", "w.1"])
    assert (tmp_path / "w" / "mine").read_text() == "precious"
    (tmp_path / "link").symlink_to(tmp_path.parent)
    for dirname in ("..", f"{tmp_path}/..", "/nowhere", "a/../.."):
        with pytest.raises(RuntimeError, match="is not within .*FLAGS_ps_checkpoint_folder"):
            notify(dirname=dirname)
    with pytest.raises(RuntimeError, match="link is a symbolic link"):
        notify(dirname="link")
    assert sorted(p.name for p in (tmp_path / "w").iterdir()) == ["mine", "w.0", "w.1"]
    with pytest.raises(RuntimeError, match="no variable 'other'"):
        notify(remote_varnames=["part", "other"])
    with pytest.raises(ValueError, match="mode"):
        notify(mode=3)


@pytest.mark.operators("send_and_recv")
def test_send_and_recv(servers) -> None:
    def fill(block):
        block.create_var(name="got", dtype="float32")
        attrs = {"send_var_name": "delta", "recv_var_name": "part", "endpoint": servers[0].endpoint}
        block.append_op(type="send_and_recv", inputs={"X": ["delta"]}, outputs={"Out": ["got"]}, attrs=attrs)

    delta = np.full((3, 2), 0.5, "float32")
    np.testing.assert_array_equal(run(fill, ["got"], {"delta": delta})[0], VALUES[0] + delta)


@pytest.mark.operators("lookup_sparse_table_merge")
def test_rows_of_several_tables() -> None:
    paddle.enable_static()
    try:
        scope, program = paddle.static.Scope(), paddle.static.Program()
        block, kind = program.global_block(), _core.VarDesc.VarType.SELECTED_ROWS
        for name, numbers, value in (("a", [3, 1], 1.0), ("b", [5], 2.0)):
            var = scope.var(name).get_selected_rows()
            var.set_height(10)
            var.set_rows(numbers)
            var.get_tensor().set(np.full((len(numbers), 2), value, "float32"), paddle.CPUPlace())
            block.create_var(name=name, type=kind, shape=[10, 2], dtype="float32", persistable=True)
        block.create_var(name="out", type=kind, shape=[30, 2], dtype="float32", persistable=True)
        block.append_op(type="lookup_sparse_table_merge", inputs={"X": ["a", "b"]}, outputs={"Out": "out"})
        paddle.static.Executor().run(program, scope=scope)
        found = scope.find_var("out").get_selected_rows()
        assert list(found.rows()) == [3, 1, 5] and found.height() == 30
        np.testing.assert_array_equal(np.asarray(found.get_tensor()), [[1, 1], [1, 1], [2, 2]])
    finally:
        paddle.disable_static()
