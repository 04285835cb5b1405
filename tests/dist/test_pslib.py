"""fleet.parameter_server.pslib: descriptions, field by field as 2.0.2's messages print them, and unsupported methods.

The training itself: test_pslib_training.py."""

from __future__ import annotations

import inspect

import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid.distributed import downpour, helper
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.incubate.fleet.parameter_server import pslib
from paddle.fluid.incubate.fleet.parameter_server.pslib import optimizer_factory, ps_pb2
from paddle.fluid.incubate.fleet.parameter_server.pslib.node import DownpourServer, DownpourWorker

#: of 2.0.2's node.py, printed by protobuf
SPARSE = """\
table_id: 3
table_class: "DownpourSparseTable"
shard_num: 1000
accessor {
  accessor_class: "DownpourCtrAccessor"
  sparse_sgd_param {
    learning_rate: 0.1
    initial_g2sum: 3.0
    initial_range: 0.0001
    weight_bounds: -1.0
    weight_bounds: 1.0
  }
  fea_dim: 7
  embedx_dim: 4
  embedx_threshold: 10
  downpour_accessor_param {
    nonclk_coeff: 0.1
    click_coeff: 2.0
    base_threshold: 1.5
    delta_threshold: 0.25
    delta_keep_days: 16.0
    show_click_decay_rate: 0.98
    delete_threshold: 0.8
    delete_after_unseen_days: 30.0
    ssd_unseenday_threshold: 1
  }
  table_accessor_save_param {
    param: 1
    converter: "(scripts/xbox_compressor_mf.py | bin/xbox_pb_converter)"
    deconverter: "(bin/xbox_pb_deconverter | scripts/xbox_decompressor_mf.awk)"
  }
  table_accessor_save_param {
    param: 2
    converter: "(scripts/xbox_compressor_mf.py | bin/xbox_pb_converter)"
    deconverter: "(bin/xbox_pb_deconverter | scripts/xbox_decompressor_mf.awk)"
  }
}
type: PS_SPARSE_TABLE
compress_in_save: true
enable_sparse_table_cache: true
sparse_table_cache_rate: 0.00055
sparse_table_cache_file_num: 16
"""
RULE = """\
name: "adagrad"
adagrad {
  learning_rate: 0.05
  initial_g2sum: 5.0
  initial_range: 0.0001
  weight_bounds: -10.0
  weight_bounds: 10.0
}
"""


@pytest.fixture(autouse=True)
def static(monkeypatch):
    paddle.enable_static()
    fresh = {"enable": False, "emb_to_table": {}, "emb_to_accessor": {}, "emb_to_size": {}, "cur_sparse_id": 0}
    for name, value in fresh.items():
        monkeypatch.setitem(optimizer_factory.FLEET_GLOBAL_DICT, name, value)
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield
    paddle.disable_static()


class Var:
    def __init__(self, name, *shape):
        self.name, self.shape = name, shape


def tables(server):
    return server.get_desc().downpour_server_param.downpour_table_param


class TestTables:
    def test_sparse(self):
        server = DownpourServer()
        settings = {
            "sparse_learning_rate": 0.1,
            "sparse_embedx_dim": 4,
            "sparse_weight_bounds": [-1, 1],
            "sparse_click_coeff": 2,
        }
        server.add_sparse_table(3, settings)
        server.add_sparse_table(3, None)  # it exists
        assert str(tables(server)[0]) == SPARSE and len(tables(server)) == 1
        service = server.get_desc().downpour_server_param.service_param
        assert service.server_class == "DownpourBrpcPsServer" and service.server_thread_num == 12

    def test_rules(self):
        server = DownpourServer()
        value = {
            "sparse_accessor_class": "DownpourSparseValueAccessor",
            "sparse_optimizer": "adagrad",
            "sparse_initial_g2sum": 5,
        }
        server.add_sparse_table(0, value)
        unit = {
            "sparse_accessor_class": "DownpourUnitAccessor",
            "embed_sparse_optimizer": "adagrad",
            "embed_sparse_initial_g2sum": 5,
            "embedx_sparse_optimizer": "naive",
        }
        server.add_sparse_table(1, unit)
        first, second = (table.accessor for table in tables(server))
        assert str(first.sparse_commonsgd_param) == str(second.embed_sgd_param) == RULE
        assert (first.fea_dim, second.fea_dim, second.embedx_sgd_param.name) == (8, 11, "naive")
        assert not first.HasField("downpour_accessor_param") and second.HasField("downpour_accessor_param")

    def test_dense(self):
        server, params = DownpourServer(), [Var("w", 13, 2), Var("table", 10, 4), Var("b", 2)]
        server.add_dense_table(1, params, [], {"dense_optimizer": "naive", "dense_naive_lr": 0.5}, ["table"])
        server.add_data_norm_table(2, 0.1, params[:1], [], None, [])
        dense, norm = (table.accessor for table in tables(server))
        assert (dense.fea_dim, dense.dense_sgd_param.name, dense.dense_sgd_param.naive.learning_rate) == (
            28,
            "naive",
            0.5,
        )
        assert (norm.fea_dim, norm.dense_sgd_param.name) == (26, "summary")
        server.add_dense_table(1, params[:1], [], None, [])
        assert dense.fea_dim == 26 and len(tables(server)) == 2

    def test_trainers(self):
        worker = DownpourWorker(1)
        ids, found = [Var("a"), Var("b")], [Var("ea"), Var("eb")]
        worker.add_sparse_table(0, ids, found, [Var("eb@GRAD")])
        (table,) = worker.get_desc().sparse_table
        assert (list(table.slot_key), list(table.slot_value)) == (["b", "a"], ["eb", "ea"])
        assert list(table.slot_gradient) == ["eb@GRAD"]
        worker.add_dense_table(1, 0.1, [Var("w"), Var("t")], [Var("w@GRAD"), Var("t@GRAD")], 1, ["t"])
        worker.add_dense_table(1, 0.1, [Var("w")], [Var("w@GRAD")], 1, [])
        assert list(worker.get_desc().dense_table[0].dense_variable_name) == ["w"]
        with pytest.raises(ValueError, match="another dense_variable_name"):
            worker.add_dense_table(1, 0.1, [Var("x")], [], 1, [])
        with pytest.raises(ValueError, match=r"lacks the slots \['c'\]"):
            worker.add_sparse_table(0, [Var("c")], [Var("ec")])

    @pytest.mark.parametrize(
        ("add", "match"),
        [
            (lambda s: s.add_sparse_table(0, {"sparse_size": 1}), "no key 'sparse_size'"),
            (lambda s: s.add_sparse_table(0, {"sparse_table_class": "Mine"}), "sparse_table_class is one of"),
            (lambda s: s.add_sparse_table(0, {"sparse_accessor_class": "Mine"}), "sparse_accessor_class is one of"),
            (lambda s: s.add_dense_table(0, [], [], {"sparse_shard_num": 1}, []), "no key 'sparse_shard_num'"),
            (lambda s: [s.add_dense_table(0, [], [], None, []), s.add_sparse_table(0, {})], "is a PS_DENSE_TABLE"),
            (
                lambda s: [s.add_sparse_table(0, {}), s.add_data_norm_table(0, 1, [], [], None, [])],
                "is a PS_SPARSE_TABLE",
            ),
            (lambda s: s.add_sparse_table(-1, {}), "table_id is 0 or more"),
        ],
    )
    def test_refused(self, add, match):
        with pytest.raises(ValueError, match=match):
            add(DownpourServer())


def model(embedding, norm=False):
    """A loss of lookups in two tables."""
    ids, more = (fluid.data(name, [None, 1], "int64", lod_level=1) for name in ("ids", "more"))
    found = [
        embedding(v, [10, 11], True, True, param_attr=fluid.ParamAttr(t))
        for v, t in ((ids, "ta"), (more, "ta"), (more, "tb"))
    ]
    x = fluid.layers.concat([fluid.layers.reshape(f, [-1, 11]) for f in found], axis=1)
    if norm:
        x = fluid.layers.data_norm(x, name="dn")
    x = fluid.layers.fc(x, 3, param_attr="w", bias_attr="b")
    return fluid.layers.mean(x)


def ours():
    pslib.fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 2, ["127.0.0.1:6174"]))
    return pslib.fleet


class TestFleet:
    def test_what_minimize_describes(self):
        with pslib.fleet_embedding("click"):
            loss = model(fluid.layers.embedding, norm=True)
        assert fluid.layers.embedding is not optimizer_factory and fluid.layers.embedding.__module__.startswith(
            "paddle.fluid.layers.nn"
        )
        strategy = {
            "tb": {"sparse_accessor_class": "DownpourSparseValueAccessor"},
            "fs_user": "me",
            "scale_datanorm": 0.5,
        }
        nothing, pairs = ours().distributed_optimizer(fluid.optimizer.Adam(0.1), strategy).minimize(loss)
        opt_info = pslib.fleet._opt_info
        assert nothing is None and opt_info is loss.block.program._fleet_opt
        assert [p.name for p, _ in pairs[0][0]] == ["b", "dn.batch_size", "dn.batch_square_sum", "dn.batch_sum", "w"]
        first, second, dense, norm = opt_info["fleet_desc"].server_param.downpour_server_param.downpour_table_param
        assert [t.accessor.accessor_class for t in (first, second)] == [
            "DownpourCtrAccessor",
            "DownpourSparseValueAccessor",
        ]
        assert (first.accessor.embedx_dim, second.accessor.embedx_dim) == (8, 11)
        assert (dense.accessor.fea_dim, norm.accessor.fea_dim) == (102, 99)
        (config,) = opt_info["program_configs"].values()
        assert config == {"pull_sparse": [0, 1], "push_sparse": [0, 1], "pull_dense": [2, 3], "push_dense": [2, 3]}
        assert (
            opt_info["device_worker"] == "Hogwild"
            and opt_info["dump_slot"]
            and (opt_info["mpi_rank"], opt_info["mpi_size"]) == (0, 2)
        )
        trainer = opt_info["fleet_desc"].trainer_param[0]
        assert [list(t.slot_key) for t in trainer.sparse_table] == [["ids", "more"], ["more"]]
        assert (
            opt_info["fleet_desc"].fs_client_param.user == "me"
            and opt_info["fleet_desc"].fs_client_param.fs_type == "HDFS"
        )
        ops = loss.block.program.global_block().ops
        pushed = [op for op in ops if op.type == "push_dense"]
        assert [op.attr("TableId") for op in pushed] == [2, 3] and pushed[0].attr("ScaleDataNorm") == 0.5
        looked = [op for op in ops if op.type == "pull_sparse"]
        assert [op.attr("AccessorClass") for op in looked] == ["DownpourCtrAccessor"] * 2 + [
            "DownpourSparseValueAccessor"
        ]
        assert all(op.attr("CtrLabelName") == "click" for op in looked)

    def test_a_description_from_a_file(self, tmp_path):
        with pslib.fleet_embedding(None):
            loss = model(fluid.embedding)
        ours().distributed_optimizer(fluid.optimizer.Adam(0.1), {"dense_table": {"dense_learning_rate": 0.5}}).minimize(
            loss
        )
        path = tmp_path / "fleet_desc.prototxt"
        path.write_text(str(pslib.fleet._opt_info["fleet_desc"]))
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            with pslib.fleet_embedding(None):
                again = model(fluid.embedding)
            ours().distributed_optimizer(fluid.optimizer.Adam(0.1), {"fleet_desc_file": str(path)}).minimize(again)
        assert str(pslib.fleet._opt_info["fleet_desc"]) == path.read_text()
        copy = ps_pb2.PSParameter()
        copy.CopyFrom(pslib.fleet._opt_info["fleet_desc"])
        assert str(copy) == path.read_text()

    def test_refused(self):
        alone = pslib.PSLib()
        for name in ("init_worker", "run_server"):
            with pytest.raises(ValueError, match="call minimize"):
                getattr(alone, name)()
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 3]), 1))
        with pytest.warns(UserWarning, match="run Adam where sgd was given"):
            made = ours().distributed_optimizer(fluid.optimizer.SGD(0.1))
        with pytest.raises(ValueError, match="1 losses need a scope each, got 2"):
            made.minimize(loss, scopes=[fluid.Scope(), fluid.Scope()])
        made.minimize(loss)
        # methods of PSLib's servers raise
        for name, method in inspect.getmembers(pslib.fleet, inspect.ismethod):
            if ": raises NotImplementedError" not in (method.__doc__ or ""):
                continue
            needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty and p.kind < 2]
            with pytest.raises(NotImplementedError, match=f"fleet.{name} is for servers of Baidu's PSLib"):
                method(*[None] * len(needed))
        with pytest.raises(NotImplementedError, match="use_ps_gpu"):
            ours().distributed_optimizer(fluid.optimizer.Adam(0.1), {"use_ps_gpu": True}).minimize(loss)

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ({"param_attr": None}, "needs param_attr with a name"),
            ({"size": 11}, "is a list or tuple"),
            ({"is_sparse": False}, "is_sparse must be True"),
            ({"is_distributed": False}, "is_distributed must be True"),
            ({"dtype": "float64"}, "dtype must be float32"),
        ],
    )
    def test_embeddings_refused(self, arguments, match):
        given = {
            "size": [10, 11],
            "is_sparse": True,
            "is_distributed": True,
            "param_attr": fluid.ParamAttr("t"),
            **arguments,
        }
        with pslib.fleet_embedding(None), pytest.raises(ValueError, match=match):
            fluid.layers.embedding(fluid.data("ids", [None, 1], "int64"), **given)

    def test_the_trainers_environment(self, monkeypatch):
        made = pslib.DownpourOptimizer(fluid.optimizer.Adam(0.1))
        assert made.get_dist_env()["num_trainers"] == 0
        monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "h:1,h:2")
        monkeypatch.setenv("PADDLE_CURRENT_ENDPOINT", "h:2")
        monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
        assert made.get_dist_env() == {
            "trainer_id": 1,
            "num_trainers": 2,
            "current_endpoint": "h:2",
            "trainer_endpoints": "h:1,h:2",
        }


class TestFluidDistributed:
    """The first version of Downpour; its files in 2.0.2 are Python 2."""

    def test_what_minimize_describes(self):
        ids, y = fluid.data("ids", [None, 1], "int64"), fluid.data("y", [None, 1])
        found = fluid.layers.embedding(ids, [10, 11], is_sparse=True, param_attr="embedding")
        found.block.ops[-1]._set_attr("is_distributed", True)
        x = fluid.layers.data_norm(fluid.layers.reshape(found, [-1, 11]), name="dn")
        loss = fluid.layers.mean(
            fluid.layers.square_error_cost(fluid.layers.fc(x, 1, param_attr="w", bias_attr="b"), y)
        )
        with pytest.raises(ValueError, match="takes a list of losses"):
            downpour.DownpourSGD().minimize(loss)
        nothing, pairs = downpour.DownpourSGD(0.2).minimize([loss])
        assert nothing is None and [p.name for p, _ in pairs[0]][:2] == ["b", "dn.batch_size"]
        opt_info = loss.block.program._fleet_opt
        sparse, dense, norm = opt_info["fleet_desc"].server_param.downpour_server_param.downpour_table_param
        assert (sparse.accessor.embedx_threshold, sparse.accessor.sparse_sgd_param.learning_rate) == (5, 0.2)
        assert (dense.accessor.fea_dim, dense.accessor.dense_sgd_param.adam.learning_rate) == (12, 0.2)
        assert (norm.accessor.fea_dim, norm.accessor.dense_sgd_param.name) == (33, "summary")
        trainer = opt_info["fleet_desc"].trainer_param  # one, not many
        assert (
            list(trainer.dense_table[0].dense_variable_name) == ["b", "w"]
            and list(trainer.skip_op)[0] == "lookup_table"
        )
        assert str(trainer.sparse_table[0]) == (
            f'table_id: 0\nslot_key: "ids"\nslot_value: "{found.name}"\nslot_gradient: "{found.name}@GRAD"\n'
        )
        (config,) = trainer.program_config
        assert (list(config.pull_sparse_table_id), list(config.push_dense_table_id)) == ([0], [1, 2])

    def test_where_files_are(self):
        desc = helper.FileSystem(uri="hdfs://x:1", user="me", passwd="secret", hadoop_bin="/h").get_desc()
        assert str(desc) == 'uri: "hdfs://x:1"\nuser: "me"\npasswd: "secret"\nhadoop_bin: "/h"\n'
        with pytest.raises(ValueError, match="user, passwd and hadoop_bin are needed"):
            helper.FileSystem()
