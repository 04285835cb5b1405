"""incubate.fleet of 1.x: Fleet, DistributedOptimizer, Collective, CollectiveOptimizer, DistributedStrategy."""

from __future__ import annotations

import nccl2_training as training
import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.distributed.launch.ports import free
from paddle.fluid.incubate.fleet import dist_transpiler
from paddle.fluid.incubate.fleet.base import fleet_base, mode
from paddle.fluid.incubate.fleet.base.role_maker import (
    PaddleCloudRoleMaker,
    UserDefinedCollectiveRoleMaker,
    UserDefinedRoleMaker,
)
from paddle.fluid.incubate.fleet.collective import (
    Collective,
    CollectiveOpBasedOptimizer,
    CollectiveOptimizer,
    DistFCConfig,
    DistributedStrategy,
    LambConfig,
    fleet,
)

ENDS = ["10.0.0.1:6170", "10.0.0.1:6171", "10.0.0.2:6170", "10.0.0.2:6171"]


@pytest.fixture(autouse=True)
def _static():
    paddle.enable_static()
    yield
    paddle.disable_static()


def on_rank(*args):
    return training.here(training.by_fleet, *args)


def same(found, want):
    for name in want:
        if name != "loss":
            np.testing.assert_allclose(found[name], want[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("options", [{}, {"_ut4grad_allreduce": True}, {"sync_batch_norm": True}])
def test_two_workers(two_apart, options, tmp_path):
    want = training.alone("sgd")
    found = two_apart.run(on_rank, options, str(tmp_path), [f"127.0.0.1:{p}" for p in free(2)])
    for one in found:
        same(one, want)
    assert {p.name for p in (tmp_path / "persistables").iterdir()} >= {"fc_0.w_0", "fc_1.b_0"}
    training.check_saved(str(tmp_path / "model"), want)


def test_local_sgd(two_apart, tmp_path):
    found = two_apart.run(on_rank, {"use_local_sgd": True}, str(tmp_path), [f"127.0.0.1:{p}" for p in free(2)])
    for rank, one in enumerate(found):
        same(one, training.means(rank, 2))


class TestFleet:
    def test_roles(self):
        ours = Collective()
        ours.init(UserDefinedCollectiveRoleMaker(2, ENDS))
        assert (ours.worker_index(), ours.worker_num(), ours.server_num()) == (2, 4, 0)
        assert ours.is_worker() and not ours.is_server() and not ours.is_first_worker()
        assert ours.worker_endpoints() == ENDS and ours.worker_endpoints(to_string=True) == ",".join(ENDS)
        assert ours.server_endpoints(to_string=True) == ""

    def test_servers(self):
        ours = fleet_base.Fleet(fleet_base.Mode.PS)
        ours.init(UserDefinedRoleMaker(1, 2, 3, ["a:1", "b:2"]))
        assert ours.is_server() and ours.server_index() == 1 and ours.server_endpoints() == ["a:1", "b:2"]

    def test_the_environment_says_it(self, monkeypatch):
        monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", ",".join(ENDS))
        monkeypatch.setenv("PADDLE_CURRENT_ENDPOINT", ENDS[1])
        monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
        monkeypatch.setenv("PADDLE_TRAINERS_NUM", "4")
        for maker in (None, PaddleCloudRoleMaker(is_collective=True)):
            ours = Collective()
            ours.init(maker)
            assert (ours.worker_index(), ours.worker_num()) == (1, 4)

    @pytest.mark.parametrize("count", [0, 1, 3, 4, 10])
    def test_files_are_partitioned(self, count):
        files, parts = [f"f{i}" for i in range(count)], []
        for rank in range(4):
            ours = Collective()
            ours.init(UserDefinedCollectiveRoleMaker(rank, ENDS))
            parts.append(ours.split_files(files))
        assert sum(parts, []) == files
        assert max(map(len, parts)) - min(map(len, parts)) <= 1 and sorted(parts, key=len, reverse=True) == parts

    def test_refused(self):
        ours = Collective()
        with pytest.raises(RuntimeError, match="call fleet.init first"):
            ours.worker_num()
        with pytest.raises(TypeError, match="a RoleMakerBase is needed"):
            ours.init("worker")
        ours.init(UserDefinedCollectiveRoleMaker(0, ENDS))
        with pytest.raises(TypeError, match="a list of files"):
            ours.split_files("files")
        base = fleet_base.Fleet(mode.Mode.COLLECTIVE)
        for name in ("init_worker", "init_server", "run_server", "stop_worker"):
            with pytest.raises(NotImplementedError, match=f"Fleet.{name}"):
                getattr(base, name)()
            if name != "init_worker":
                with pytest.warns(UserWarning, match=name):
                    getattr(ours, name)()
        with pytest.raises(NotImplementedError):
            base.distributed_optimizer(fluid.optimizer.SGD(0.1))
        for save, args in (("save_persistables", ()), ("save_inference_model", (["x"], []))):
            with pytest.raises(NotImplementedError):
                getattr(base, save)(None, "folder", *args)
            with pytest.raises(AssertionError, match="by an Executor"):
                getattr(ours, save)(None, "folder", *args)
            with pytest.raises(AssertionError, match="saves a Program"):
                getattr(ours, save)(fluid.Executor(fluid.CPUPlace()), "folder", *args)

    def test_the_names_of_the_pages(self):
        assert dist_transpiler.DistributeTranspiler is fluid.DistributeTranspiler
        assert (mode.Mode.TRANSPILER, mode.Mode.PSLIB, mode.Mode.COLLECTIVE) == (1, 2, 3)
        assert LambConfig() and DistFCConfig()


class TestOptimizer:
    def minimize(self, strategy, optimizer=None):
        main, startup, loss = training.network(0, "none")
        with fluid.program_guard(main, startup):
            ours = fleet.distributed_optimizer(optimizer or fluid.optimizer.SGD(0.1), strategy)
            return ours, ours.minimize(loss, startup), main, startup

    def test_two_hosts(self, monkeypatch):
        monkeypatch.setattr("paddle.distributed.collective_transpiler.wait_server_ready", lambda others: None)
        fleet.init(UserDefinedCollectiveRoleMaker(1, ENDS))
        strategy = DistributedStrategy()
        strategy.nccl_comm_num, strategy.use_hierarchical_allreduce = 2, True
        strategy.hierarchical_allreduce_inter_nranks = 2
        ours, (ops, pairs), main, startup = self.minimize(strategy)
        assert len(ops) == 4 and len(pairs) == 4
        assert (strategy.num_trainers, strategy.trainer_id, strategy.trainers_endpoints) == (4, 1, ENDS)
        assert strategy.exec_strategy.num_threads == 5
        op = startup.global_block().ops[-1]
        assert op.type == "gen_nccl_id" and op.attr("trainers") == ENDS and op.attr("use_hierarchical_allreduce")
        assert main._nccl_comm_num == 2 and main._hierarchical_allreduce_inter_nranks == 2
        assert fleet.main_program is ours._compiled_program and fleet._transpiled_program is main
        assert ours._node_num() == 2 and ours._get_node_ips_from_endpoints(ENDS) == ["10.0.0.1", "10.0.0.2"]

    def test_one_host_needs_one_ring(self, monkeypatch):
        monkeypatch.setattr("paddle.distributed.collective_transpiler.wait_server_ready", lambda others: None)
        fleet.init(UserDefinedCollectiveRoleMaker(0, ENDS[:2]))
        strategy = DistributedStrategy()
        strategy.nccl_comm_num = 3
        with pytest.warns(UserWarning, match="nccl_comm_num becomes 1: all workers are on one host"):
            self.minimize(strategy)
        assert strategy.nccl_comm_num == 1 and strategy.exec_strategy.num_threads == 2
        strategy = DistributedStrategy()
        strategy.sync_batch_norm = True
        self.minimize(strategy)
        assert strategy.exec_strategy.num_threads == 1

    def test_mixed_precision(self):
        fleet.init(UserDefinedCollectiveRoleMaker(0, ENDS[:1]))
        strategy = DistributedStrategy()
        strategy.use_amp, strategy.amp_loss_scaling = True, 8.0
        main = self.minimize(strategy)[2]
        kinds = {op.type for op in main.global_block().ops}
        assert {"cast", "check_finite_and_unscale", "update_loss_scaling"} <= kinds

    def test_both_steps_apart(self):
        main, startup, loss = training.network(0, "none")
        ours = CollectiveOpBasedOptimizer(fluid.optimizer.SGD(0.1), DistributedStrategy())
        with fluid.program_guard(main, startup):
            assert len(ours.apply_gradients(ours.backward(loss, startup))) == 4

    def test_recompute(self):
        fleet.init(UserDefinedCollectiveRoleMaker(0, ENDS[:1]))
        main, startup, loss = training.network(0, "none")
        strategy = DistributedStrategy()
        strategy.forward_recompute = True
        strategy.recompute_checkpoints = [main.global_block().var("fc_0.tmp_2")]
        with fluid.program_guard(main, startup):
            fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss, startup)
        assert any("subprog" in name for op in main.global_block().ops for name in op.output_arg_names)

    @pytest.mark.parametrize(
        ("options", "kind", "said"),
        [
            ({"use_local_sgd": True, "use_dist_fc": True}, AssertionError, "use_local_sgd and use_dist_fc"),
            ({"use_dist_fc": True}, AssertionError, "dist_fc_config"),
            ({"collective_mode": "local_sgd"}, AssertionError, "needs mode='collective'"),
            ({"forward_recompute": True}, ValueError, "needs recompute_checkpoints"),
            ({"recompute_checkpoints": "fc"}, ValueError, "must be a list"),
        ],
    )
    def test_refused(self, options, kind, said):
        fleet.init(UserDefinedCollectiveRoleMaker(0, ENDS[:1]))
        strategy = DistributedStrategy()
        for name, value in options.items():
            setattr(strategy, name, value)
        with pytest.raises(kind, match=said):
            self.minimize(strategy)

    def test_no_optimizer(self):
        with pytest.raises(TypeError, match="an Optimizer is needed"):
            CollectiveOptimizer("sgd")
        with pytest.raises(AssertionError, match="must be a DistributedStrategy"):
            CollectiveOpBasedOptimizer(fluid.optimizer.SGD(0.1))
        strategy = DistributedStrategy()
        strategy.forward_recompute, strategy.recompute_checkpoints = True, ["a"]
        again = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        with pytest.raises(ValueError, match="makes what RecomputeOptimizer is already"):
            CollectiveOptimizer(again, strategy).minimize(None)
        base = fleet_base.DistributedOptimizer(fluid.optimizer.SGD(0.1))
        for name, args in (("backward", (None,)), ("apply_gradients", ([],)), ("minimize", (None,))):
            with pytest.raises(NotImplementedError, match=name):
                getattr(base, name)(*args)


def test_a_worker_alone_by_hand():
    """The steps of minimize: `_try_to_compile`, and within it `_transpile`."""
    main, startup, loss = training.network(0, "none")
    fleet.init(UserDefinedCollectiveRoleMaker(0, ENDS[:1]))
    strategy = DistributedStrategy()
    optimizer = CollectiveOptimizer(fluid.optimizer.SGD(0.1), strategy)
    with fluid.program_guard(main, startup):
        optimizer._optimizer.minimize(loss, startup)
    optimizer._loss = loss
    optimizer._transpile(startup, main)
    assert [op.type for op in startup.global_block().ops][-1] == "gen_nccl_id"
    compiled = optimizer._try_to_compile(startup, main)
    assert isinstance(compiled, fluid.CompiledProgram) and strategy.num_trainers == 1


@pytest.mark.parametrize("mode", ["_transpile_nccl2", "_transpile_collective"])
def test_the_transpilers_own_steps(mode):
    main, startup, _ = training.network(0)
    config = dist_transpiler.DistributeTranspilerConfig()
    config.wait_port = False
    t = dist_transpiler.DistributeTranspiler(config)
    if mode == "_transpile_nccl2":
        t._transpile_nccl2(0, ",".join(ENDS), ENDS[0], startup, wait_port=False)
        assert startup.global_block().ops[-1].type == "gen_nccl_id"
    else:
        t._transpile_collective("grad_allreduce", 0, ",".join(ENDS), ENDS[0], startup, main, wait_port=False)
        assert "c_allreduce_sum" in [op.type for op in main.global_block().ops]


def test_programs_of_one_server():
    main, startup, _ = training.network(0)
    t = dist_transpiler.DistributeTranspiler()
    t.transpile(0, program=main, pservers=",".join(ENDS[:2]), trainers=1, startup_program=startup)
    program = t.get_pserver_program(ENDS[0])
    assert [op.type for op in program.global_block().ops] == ["listen_and_serv"]
    begins = t.get_startup_program(ENDS[0], program)
    assert [op.type for op in t.get_pserver_programs(ENDS[0])[1].global_block().ops] == [
        op.type for op in begins.global_block().ops
    ]
