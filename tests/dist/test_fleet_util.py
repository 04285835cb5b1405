"""incubate.fleet.utils.FleetUtil: metrics, donefiles in a Hadoop file system, Programs."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil
from paddle.fluid.incubate.fleet.utils.utils import load_program, save_program
from test_hdfs_client import home  # noqa: F401 (a fixture)

NAME, UGI = "hdfs://x:1", "me,secret"


@pytest.fixture
def util(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paddle.enable_static()
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:6174"]))
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield FleetUtil("transpiler")
    paddle.disable_static()


@pytest.fixture
def hadoop(home):  # noqa: F811
    return {"hadoop_fs_name": NAME, "hadoop_fs_ugi": UGI, "hadoop_home": str(home)}


def test_rank0_prints(util, capsys, caplog):
    util.rank0_print("one line")
    with caplog.at_level("INFO"):
        util.rank0_info("said")
        util.rank0_error("wrong")
    assert capsys.readouterr().out == "one line\n" and {"said", "wrong"} <= set(caplog.messages)
    fleet.init(UserDefinedRoleMaker(1, Role.WORKER, 2, ["127.0.0.1:6174"]))
    util.rank0_print("nothing")
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="mode is one of pslib, transpiler"):
        FleetUtil("mine")


def put(scope, name, value):
    scope.var(name).get_tensor().set(np.asarray(value), fluid.CPUPlace())


def test_set_zero(util):
    scope = fluid.Scope()
    put(scope, "counts", np.array([[3, 4]], "int64"))
    util.set_zero("counts", scope)
    assert np.array(scope.find_var("counts").get_tensor()).tolist() == [[0, 0]]


def test_figures(util, capsys):
    random, buckets, n = np.random.RandomState(0), 1000, 20000
    guesses = random.uniform(0, 1, n)
    clicked = random.uniform(0, 1, n) < 0.3 + 0.4 * guesses
    at = (guesses * buckets).astype(int)
    scope = fluid.Scope()
    put(scope, "_generated_var_2", np.bincount(at[clicked], minlength=buckets)[None])
    put(scope, "_generated_var_3", np.bincount(at[~clicked], minlength=buckets)[None])
    sums = {
        "sqrerr": (guesses - clicked) ** 2,
        "abserr": abs(guesses - clicked),
        "prob": guesses,
        "q": 2 * guesses,
        "pos": clicked,
        "total": np.ones(n),
    }
    assert util.get_global_metrics(scope) == [None] * 9 and "not found sqrerr" in capsys.readouterr().out
    for name, values in sums.items():
        put(scope, name, np.array([values.sum()], "float32"))
    auc, error, mae, rmse, actual, predicted, copc, q, total = util.get_global_metrics(scope)
    # the fraction of pairs (click, no click) in the right order; ties within a bucket count half
    pairs = at[clicked][:, None] - at[~clicked][None]
    want = (pairs > 0).mean() + (pairs == 0).mean() / 2
    assert abs(auc - want) < 1e-9 and abs(util.get_global_auc(scope) - want) < 1e-9
    np.testing.assert_allclose(
        [mae, actual, predicted, q], [sums[k].mean() for k in ("abserr", "pos", "prob", "q")], rtol=1e-5
    )
    np.testing.assert_allclose([rmse, copc], [np.sqrt(sums["sqrerr"].mean()), actual / predicted], rtol=1e-5)
    assert total == n and 0.1 < error < 1  # the click rate is far from the prediction
    util.print_global_metrics(scope, print_prefix="pass 1")
    util.print_global_auc(scope, print_prefix="pass 1")
    said = capsys.readouterr().out
    assert (
        f"pass 1 global auc={auc:.6f} bucket_error=" in said
        and "total_ins_num=20000" in said
        and "pass 1 global auc = " in said
    )
    assert util.get_global_auc(fluid.Scope()) is None


def test_a_bucket_that_is_right_has_no_error(util):
    scope, shown = fluid.Scope(), np.full(100, 10**6)
    clicks = (shown * np.arange(100) / 100).astype(int)
    put(scope, "pos", clicks[None])
    put(scope, "neg", (shown - clicks)[None])
    for name in ("sqrerr", "abserr", "prob", "q", "total"):
        put(scope, name, np.array([1.0], "float32"))
    assert util.get_global_metrics(scope, "pos", "neg", pos_ins_num_name="total")[1] < 1e-9


def test_notes_of_models(util, hadoop, monkeypatch):
    assert util.get_last_save_model("/out", **hadoop)[:3] == [-1, -1, ""]
    assert util.get_last_save_xbox("/out", **hadoop)[:3] == [-1, -1, ""]
    assert util.get_last_save_xbox_base("/out", **hadoop)[:2] == [-1, -1]
    for number in (5, 6, 6):
        util.write_model_donefile("/out", 20190723, number, 77, **hadoop)
        util.write_xbox_donefile("/out", 20190723, number, 77, ["/data/a", "/data/b"], **hadoop)
    util.write_xbox_donefile("/out", 20190722, 9, 77, "/data", **hadoop)  # an earlier one
    assert util.get_last_save_model("/out", **hadoop) == [20190723, 6, "/out/20190723/6/", 77]
    assert util.get_last_save_xbox("/out", **hadoop) == [20190723, 6, f"{NAME}/out/20190723/delta-6", 77]
    files = os.path.join(hadoop["hadoop_home"], "files", "out")
    notes = [json.loads(line) for line in open(f"{files}/xbox_patch_done.txt")]
    assert [n["ins_path"] for n in notes] == ["/data/a,/data/b"] * 2 and notes[0]["mpi_size"] == "1"
    assert open(f"{files}/donefile.txt").read().count("\n") == 2
    monkeypatch.setenv("JOB_ID", "job-1")
    monkeypatch.setenv("INSTANCE_ID", "a-job-1-x--3")
    util.write_xbox_donefile("hdfs:/out", 20190723, -1, 78, "/data", **hadoop | {"hadoop_fs_name": ""})
    util.write_model_donefile("/out", 20190724, -1, 78, donefile_name="days.txt", **hadoop)
    day = json.loads(open(os.path.join(hadoop["hadoop_home"], "files", "hdfs:/out/xbox_base_done.txt")).read())
    assert (day["id"], day["input"], day["job_id"]) == ("78", "/out/20190723/base/000", "job-1-x")
    assert open(f"{files}/days.txt").read() == "20190724\t78\t/out/20190724/0/\t-1\t0\n"
    util.write_cache_donefile("/out", 20190723, 6, 12, table_id=2, **hadoop)
    assert (
        open(f"{files}/20190723/delta-6/002_cache/sparse_cache.meta").read()
        == "file_prefix:part\npart_num:16\nkey_num:12\n"
    )


def test_models_are_uploaded(util, hadoop):
    x = fluid.data("x", [None, 3])
    y = fluid.layers.fc(x, 2, param_attr="w", bias_attr="b")
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=scope)
    main = fluid.default_main_program()
    util.save_paddle_inference_model(exe, scope, main, [x], [y], "/out", 20190727, 6, **hadoop)
    util.save_paddle_params(exe, scope, main, "dense", "/out", 20190727, -1, var_names=["w"], **hadoop)
    files = os.path.join(hadoop["hadoop_home"], "files", "out", "20190727")
    assert sorted(os.listdir(f"{files}/delta-6/dnn_plugin/inference_model")) == ["__model__", "params"]
    with fluid.scope_guard(fluid.Scope()):
        fluid.io.load_vars(exe, f"{files}/base/dnn_plugin", main, vars=[main.global_block().var("w")], filename="dense")
        got = np.array(fluid.global_scope().find_var("w").get_tensor())
    np.testing.assert_array_equal(got, np.array(scope.find_var("w").get_tensor()))


def test_what_the_servers_are_asked(monkeypatch):
    """The folders of models that are passed to the fleet."""
    util, given = FleetUtil(), []

    def note(name):
        return lambda *args, **kwargs: given.append((name, *args, kwargs))

    asked = {n: note(n) for n in ("save_persistables", "init_server", "load_one_table", "save_cache_model")}
    monkeypatch.setattr(util, "_fleet", SimpleNamespace(worker_index=lambda: 1, worker_num=lambda: 1, **asked))
    util.load_model("/o", 1, 2)
    util.save_model("/o", 1, 2)
    util.save_batch_model("/o", 1)
    util.save_delta_model("/o", 1, 2)
    util.save_xbox_base_model("/o", 1)
    util.save_cache_model("/o", 1, 2)
    util.save_cache_base_model("/o", 1, table_id=3)
    util.load_fleet_model_one_table(4, "/t")
    assert given == [
        ("init_server", "/o/1/2/", {"mode": 0}),
        ("save_persistables", None, "/o/1/2/", {"mode": 0}),
        ("save_persistables", None, "/o/1/0/", {"mode": 3}),
        ("save_persistables", None, "/o/1/delta-2/", {"mode": 1}),
        ("save_persistables", None, "/o/1/base/", {"mode": 2}),
        ("save_cache_model", None, "/o/1/delta-2", {"mode": 1, "table_id": 0}),
        ("save_cache_model", None, "/o/1/base", {"mode": 2, "table_id": 3}),
        ("load_one_table", 4, "/t", {}),
    ]
    util._fleet._opt_info = {}
    with pytest.raises(NotImplementedError, match="pull_all_dense_params is for servers of Baidu's PSLib"):
        util.pull_all_dense_params(None, None)


def test_passes_of_a_day(util):
    found = util.get_online_pass_interval("{20190720..20190729}", "{1..2}", "20", 3, False)
    assert found == [["0100", "0120", "0140"], ["0200", "0220", "0240"]]
    assert util.get_online_pass_interval("20190720", "0 1 2", 60, 2, True) == [["00", "01"]]


def test_programs_in_files(util, tmp_path):
    y = fluid.layers.fc(fluid.data("x", [None, 3]), 2, param_attr="w")
    main = fluid.default_main_program()
    save_program(main, "train")
    save_program(main.clone(for_test=True), "pruned")
    assert (
        util.program_type_trans(".", "train", False) == "train.pbtxt"
        and load_program("train.pbtxt", True).num_blocks == 1
    )
    config = SimpleNamespace(
        train_prog_path="train",
        is_text_train_program=False,
        pruned_prog_path="pruned",
        is_text_pruned_program=False,
        draw=True,
        draw_out_name="drawn",
    )
    assert util.check_two_programs(config) and os.path.exists("drawn.dot")
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        fluid.layers.fc(fluid.data("x", [None, 4]), 2, param_attr="w")
        save_program(fluid.default_main_program(), "pruned")
    assert not util.check_two_programs(config)
    util.draw_from_program_file("train", False, str(tmp_path), "again")
    util.parse_program_proto("train", False, str(tmp_path))
    assert os.path.exists("again.dot") and y.name in open("vars_all.log").read()


def test_the_region_of_a_device(util):
    x = fluid.data("x", [None, 3])
    with fluid.device_guard("cpu"):
        a = fluid.layers.scale(x, 2.0)
    with fluid.device_guard("gpu"):
        b = fluid.layers.scale(a, 3.0)
    with fluid.device_guard("cpu"):
        c = fluid.layers.scale(b, 4.0)
    with fluid.device_guard("gpu"):
        d = fluid.layers.scale(c, 5.0)
    with fluid.device_guard("cpu"):
        e = fluid.layers.scale(d, 6.0)
    first, last, sends, gets, part = util.split_program_by_device(e.block.program)
    # operators between two regions of the device become part of it
    assert (first, last, sends, gets) == (1, 3, [d.name], [a.name])
    assert [op.attr("scale") for op in part.global_block().ops if op.type == "scale"] == [3.0, 4.0, 5.0]
    with fluid.program_guard(fluid.Program()), fluid.device_guard("cpu"):
        only = fluid.layers.scale(fluid.data("x", [None, 3]), 2.0)
    assert util.split_program_by_device(only.block.program) is None
