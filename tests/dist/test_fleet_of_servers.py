"""The Programs of fleet with parameter servers, without running a server."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
import pytest
from paddle import fluid
from paddle.distributed.fleet.base.util_factory import UtilFactory
from paddle.distributed.fleet.runtime.the_one_ps import Table
from paddle.distributed.fleet.utils.fs import FS, LocalFS
from paddle.fluid.incubate.checkpoint.auto_checkpoint import ExeTrainStatus
from paddle.fluid.incubate.checkpoint.checkpoint_saver import CheckpointSaver
from paddle.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
from paddle.fluid.incubate.fleet.collective import fleet as workers
from paddle.fluid.incubate.fleet.parameter_server.ir.ps_dispatcher import HashName, RoundRobin
from paddle.fluid.incubate.fleet.parameter_server.ir.pserver_pass import _get_optimizer_input_shape
from paddle.fluid.incubate.fleet.parameter_server.version import is_transpiler

ENDS = ["127.0.0.1:36001", "127.0.0.1:36002"]


@pytest.fixture(autouse=True)
def _programs(monkeypatch):
    monkeypatch.setenv("FLAGS_LAUNCH_BARRIER", "0")
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield
    paddle.disable_static()


def worker(optimizer, sparse: bool = False, remote: bool = False, **fields):
    """A worker's main Program, and the strategy that was applied."""
    made = fleet.Fleet()
    role = fleet.UserDefinedRoleMaker(current_id=0, role=fleet.Role.WORKER, worker_num=2, server_endpoints=ENDS)
    made.init(role)
    ids = fluid.data("ids", [None, 1], "int64")
    if remote:
        rows = [fluid.contrib.layers.sparse_embedding(ids, [50, 4], param_attr="table") for _ in range(2)]
        found = fluid.layers.concat(rows, 1)
    else:
        found = fluid.layers.embedding(ids, [50, 4], is_sparse=sparse)
    loss = fluid.layers.mean(fluid.layers.fc(found, 1))
    strategy = fleet.DistributedStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    made.distributed_optimizer(optimizer, strategy).minimize(loss)
    return made, loss.block.program


@pytest.mark.parametrize(("sparse", "steps"), [(False, 0), (True, 800)])
def test_auto_takes_geo_where_rows_are_exchanged(sparse, steps):
    made, _ = worker(fluid.optimizer.SGD(0.1), sparse, auto=True)
    applied = made._final_strategy()
    assert applied.a_sync and applied.a_sync_configs["k_steps"] == steps


def test_geo_needs_rows():
    with pytest.raises(ValueError, match="k_steps=4.*sparse embeddings.*has none"):
        worker(fluid.optimizer.SGD(0.1), a_sync=True, a_sync_configs={"k_steps": 4})


def test_a_table_that_only_servers_hold():
    """Both lookups become one; the table and its moments are declared as dense variables, split into blocks."""
    made, program = worker(fluid.optimizer.Adam(0.1), remote=True, a_sync=True)
    kinds = [op.type for op in program.global_block().ops]
    assert kinds.count("distributed_lookup_table") == 1 and "lookup_table_v2" not in kinds
    with pytest.raises(NotImplementedError, match="no scores"):
        made.shrink(3)


def test_nothing_to_shrink():
    made, _ = worker(fluid.optimizer.SGD(0.1), a_sync=True)
    made.shrink(3)


def test_a_file_system_says_what_it_lacks():
    class Half(FS):
        def is_file(self, fs_path):
            return True

    assert Half().is_file("x")
    with pytest.raises(NotImplementedError, match="Half has no mkdirs"):
        Half().mkdirs("x")


def test_util_of_a_context():
    strategy = fleet.DistributedStrategy()
    made = UtilFactory()._create_util({"role_maker": None, "valid_strategy": strategy})
    assert made.role_maker is None and made.dist_strategy is strategy
    assert UtilFactory()._create_util().role_maker is None


def test_where_2_0_has_them():
    assert is_transpiler()
    assert len(HashName(ENDS).eps) == len(RoundRobin(ENDS).eps) == 2
    assert _get_optimizer_input_shape("adam", "Moment1", [100, 1], [50, 1]) == [50, 1]
    with pytest.raises(ValueError, match="adadelta"):
        _get_optimizer_input_shape("adadelta", "Moment", [2], [1])


def test_the_text_of_a_table():
    class Part:
        def to_string(self, indent):
            return " " * indent + "part {}"

    table = Table()
    table.id, table.table_class, table.common = 1001, "SPARSE_TABLE", Part()
    want = (
        '  downpour_table_param {table_id: 1001 table_class: "SPARSE_TABLE" shard_num: -1 type: None\n  part {}\n\n  }'
    )
    assert table.to_string(0) == want


def test_gloo_of_the_core(tmp_path):
    def rank(me):
        one = fluid.core.Gloo()
        one.set_rank(me)
        one.set_size(2)
        one.set_prefix("job")
        one.set_timeout_seconds(20, 20)
        one.set_hdfs_store(str(tmp_path), "", "")
        one.init()
        one.barrier()
        return (
            one.all_reduce([me, 5], "sum"),
            one.all_reduce([me, 5], "max"),
            one.all_gather(me),
            one.rank(),
            one.size(),
        )

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(rank, range(2)))
    assert [f[:3] for f in found] == [([1, 10], [1, 5], [0, 1])] * 2 and [f[3:] for f in found] == [(0, 2), (1, 2)]
    alone = fluid.core.Gloo()
    with pytest.raises(ValueError, match="set the rendezvous"):
        alone.init()
    with pytest.raises(RuntimeError, match="init first"):
        alone.barrier()


def test_checkpoints_of_a_fleet(tmp_path):
    made = workers
    made.init(UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:6170"]))
    loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 3]), 1, param_attr="w"))
    made.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)
    exe, scope, fs, path = fluid.Executor(fluid.CPUPlace()), fluid.global_scope(), LocalFS(), str(tmp_path / "saved")
    exe.run(fluid.default_startup_program())
    weights = np.array(scope.find_var("w").get_tensor())
    status = ExeTrainStatus("k", 4)
    where, first = made.save_checkpoint(exe, path, 0, status, fs)
    assert json.loads((tmp_path / "saved" / where.split("/")[-1] / "exe_train_status").read_text())["key"] == "k"
    _, second = made.save_checkpoint(exe, path, 0, status, fs, remain_all_checkpoint=False)
    assert second == first + 1 and CheckpointSaver(fs).get_checkpoint_no(path) == [second]
    scope.find_var("w").get_tensor().set(weights * 0, fluid.CPUPlace())
    found = ExeTrainStatus()
    assert found != status
    made.load_checkpoint(exe, path, 0, found, fs)
    assert found == status
    np.testing.assert_array_equal(np.array(scope.find_var("w").get_tensor()), weights)
