"""fluid.contrib's functions for models with a table on parameter servers, and for a trial run of a saved model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle.fluid import core
from paddle.fluid.contrib import (
    convert_dist_to_sparse_program,
    load_persistables_for_increment,
    load_persistables_for_inference,
)
from paddle.fluid.incubate.fleet.utils.utils import check_saved_vars_try_dump, save_program

PLACE = fluid.CPUPlace()


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


def rows_of(name, numbers, height=10):
    rows = fluid.global_scope().var(name).get_selected_rows()
    rows.set_height(height)
    rows.set_rows(numbers)
    value = np.array([[n, n + 0.5] for n in numbers], "float32")
    rows.get_tensor().set(value, PLACE)


def transpiled(server=0):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.data("ids", [None, 1], "int64")
        out = fluid.layers.embedding(ids, [10, 2], is_sparse=True, param_attr="table")
        main.global_block().ops[-1]._set_attr("is_distributed", True)
        # large enough to be split into slices
        loss = fluid.layers.mean(fluid.layers.fc(out, 9000))
        fluid.optimizer.SGD(0.1).minimize(loss)
    transpiler = fluid.DistributeTranspiler()
    servers = ["127.0.0.1:6174", "127.0.0.1:6175"]
    where = {"pservers": ",".join(servers), "trainers": 1, "current_endpoint": servers[server]}
    transpiler.transpile(0, program=main, startup_program=startup, **where)
    return transpiler, out, servers[server]


def test_a_trainer_looks_its_table_up():
    transpiler, out, _ = transpiled()
    program = transpiler.get_trainer_program(wait_port=False)
    assert convert_dist_to_sparse_program(fluid.Program()) is None
    assert convert_dist_to_sparse_program(program) is program
    types = [op.type for op in program.global_block().ops]
    assert "prefetch" not in types and program.global_block().var("table").type == core.VarDesc.VarType.SELECTED_ROWS
    lookup = next(op for op in program.global_block().ops if op.type.startswith("lookup_table"))
    rows_of("table", [7, 2, 4])
    part = program._prune(out)
    (got,) = fluid.Executor(PLACE).run(part, feed={"ids": np.array([[2], [7]])}, fetch_list=[out.name])
    assert lookup.output("Out") == [out.name]
    np.testing.assert_array_equal(got.reshape(2, 2), [[2, 2.5], [7, 7.5]])


def test_parts_are_merged_into_one_table(tmp_path):
    exe, scope = fluid.Executor(PLACE), fluid.global_scope()
    program = fluid.Program()
    block = program.global_block()
    block.create_var(name="w", shape=[3], dtype="float32", persistable=True)
    kind = core.VarDesc.VarType.SELECTED_ROWS
    block.create_var(name="table", shape=[10, 2], dtype="float32", type=kind, persistable=True)
    scope.var("w").get_tensor().set(np.arange(3, dtype="float32"), PLACE)
    folder = tmp_path / "__lookup_table__"
    folder.mkdir()
    saves = fluid.Program()
    for name, path in (("w", tmp_path / "w"), ("table_0", folder / "table_0"), ("table_1", folder / "table_1")):
        if name != "w":
            rows_of(name, [0, 2, 4] if name == "table_0" else [1, 3])
        given = {} if name == "w" else {"type": kind}
        var = saves.global_block().create_var(name=name, persistable=True, **given)
        saves.global_block().append_op(type="save", inputs={"X": [var]}, attrs={"file_path": str(path)})
    exe.run(saves)
    (tmp_path / "__model__").write_bytes(program.desc.serialize_to_string())
    for given in (program, None):  # the second time the first one's table exists
        with fluid.scope_guard(fluid.Scope()):
            loaded = load_persistables_for_inference(str(tmp_path), exe, given, "table")
            assert isinstance(loaded, fluid.Program)
            scope = fluid.global_scope()
            np.testing.assert_array_equal(np.array(scope.find_var("w").get_tensor()), [0, 1, 2])
            rows = scope.find_var("table").get_selected_rows()
            assert rows.rows() == [0, 2, 4, 1, 3]
            np.testing.assert_array_equal(np.array(rows.get_tensor())[:, 0], [0, 2, 4, 1, 3])
    with pytest.raises(ValueError, match="no directory named"):
        load_persistables_for_inference(str(tmp_path / "none"), exe, program, "table")


@pytest.mark.parametrize("server", [0, 1])
def test_a_server_continues(server, tmp_path):
    transpiler, _, endpoint = transpiled(server)
    exe = fluid.Executor(PLACE)
    program = transpiler.get_pserver_program(endpoint)
    needed = program._parameters_on_pservers.get_distributed_vars_by_ep(endpoint)
    assert any(found.is_slice for found in needed)
    saves, expected = fluid.Program(), {}
    for found in needed:
        origin, part = found.origin, found.slice
        value = np.arange(np.prod(origin.shape), dtype="float32").reshape(origin.shape)
        fluid.global_scope().var(origin.name).get_tensor().set(value, PLACE)
        var = saves.global_block().create_var(name=origin.name, persistable=True)
        saves.global_block().append_op(
            type="save", inputs={"X": [var]}, attrs={"file_path": str(tmp_path / origin.name)}
        )
        start = found.offset // int(np.prod(part.shape[1:])) if found.is_slice else 0
        expected[part.name if found.is_slice else origin.name] = value[start : start + part.shape[0]]
    rows_of("table", [1, 3, 5])
    var = saves.global_block().create_var(name="table", persistable=True, type=core.VarDesc.VarType.SELECTED_ROWS)
    saves.global_block().append_op(type="save", inputs={"X": [var]}, attrs={"file_path": str(tmp_path / "part")})
    exe.run(saves)
    with fluid.scope_guard(fluid.Scope()):
        load_persistables_for_increment(str(tmp_path), exe, program, "table", str(tmp_path / "part"))
        for name, value in expected.items():
            np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), value)
        assert fluid.global_scope().find_var("table").get_selected_rows().rows() == [1, 3, 5]
    with pytest.raises(ValueError, match="no file named"):
        load_persistables_for_increment(str(tmp_path), exe, program, "table", str(tmp_path / "none"))


@pytest.mark.parametrize("text", [False, True])
def test_a_trial_run_of_a_saved_model(text, tmp_path):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        out = fluid.layers.fc(fluid.data("x", [None, 3]), 2, act="relu")
    exe = fluid.Executor(PLACE)
    exe.run(startup)
    fluid.io.save_inference_model(str(tmp_path), ["x"], [out], exe, main)
    name = "__model__"
    if text:
        program = fluid.Program.parse_from_string((tmp_path / name).read_bytes())
        name = "model.pbtxt"
        save_program(program, str(tmp_path / name), is_text=True)
    numbers = tmp_path / "numbers"
    numbers.write_text("1 2 3 4 5 6 7\n")
    feeding = SimpleNamespace(feeded_vars_names=["x"], feeded_vars_dims=[3], feeded_vars_types=["float32"])
    feeding.feeded_vars_filelist = [str(numbers)]
    fetching = SimpleNamespace(fetch_vars_names=None)
    (got,) = check_saved_vars_try_dump(str(tmp_path), name, text, feeding, fetching, batch_size=2)
    x = np.arange(1, 7, dtype="float32").reshape(2, 3)
    (expected,) = exe.run(main, feed={"x": x}, fetch_list=[out])
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    feeding.feeded_vars_filelist = None
    hidden = main.global_block().ops[0].output("Out")[0]
    fetching.fetch_vars_names = [hidden]
    (got,) = check_saved_vars_try_dump(str(tmp_path), name, text, feeding, fetching, batch_size=4)
    assert got.shape == (4, 2)
    feeding.feeded_vars_dims = [(4,)]
    with pytest.raises(RuntimeError, match=r"shape \(3,\)"):
        check_saved_vars_try_dump(str(tmp_path), name, text, feeding, fetching)
