"""incubate.fleet.parameter_server.distribute_transpiler: strategies, and trainers and servers as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nccl2_training as training
import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from launching import clean_environment
from paddle.distributed.launch.ports import free
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    AsyncStrategy,
    FleetTranspiler,
    GeoStrategy,
    HalfAsyncStrategy,
    ParameterServerOptimizer,
    StrategyFactory,
    SyncStrategy,
    TrainerRuntimeConfig,
    fleet,
)
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import DistributedStrategy
from paddle.fluid.incubate.fleet.parameter_server.mode import DistributedMode, PSMode

SCRIPT = Path(__file__).with_name("fleet_ps_training.py")
ENDS = ["127.0.0.1:6174", "127.0.0.1:6175"]


@pytest.fixture(autouse=True)
def _static(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "2")
    paddle.enable_static()
    yield
    paddle.disable_static()


def run(kind: str, folder: Path, *saved: str) -> list[dict]:
    endpoints = ",".join(f"127.0.0.1:{p}" for p in free(2))
    env = clean_environment(OMP_NUM_THREADS="1", OAR_INIT_TIMEOUT="60", OAR_TIMEOUT="60")
    jobs = {}
    for role in ("server", "trainer"):
        for index in range(2):
            command = [
                sys.executable,
                str(SCRIPT),
                role,
                str(index),
                endpoints,
                str(folder / f"{role}{index}"),
                kind,
                *saved,
            ]
            jobs[role, index] = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    try:
        errors = {job: process.communicate(timeout=120)[1] for job, process in jobs.items()}
    finally:
        for process in jobs.values():
            process.kill()
    assert not [job for job, process in jobs.items() if process.returncode], errors
    return [json.loads((folder / f"trainer{index}").read_text()) for index in range(2)]


def test_sync_is_one_process(tmp_path):
    found, want = run("sync", tmp_path), training.alone("sgd")
    np.testing.assert_allclose(np.mean([f["loss"] for f in found], 0), want["loss"], rtol=1e-5)
    for one in found:
        for name in set(want) - {"loss"}:
            np.testing.assert_allclose(one[name], want[name], rtol=1e-5, atol=1e-6)
    training.check_saved(str(tmp_path / "trainer0.model"), want)


def test_the_next_job_starts_from_saved_values(tmp_path):
    """Parameters, and the optimizer states of the servers."""
    run("sync+momentum", tmp_path)
    saved = tmp_path / "trainer0.persistables"
    assert sum("velocity" in p.name for p in saved.iterdir()) == 4
    found, want = run("sync+momentum", tmp_path, str(saved)), training.alone(rounds=2)
    np.testing.assert_allclose(np.mean([f["loss"] for f in found], 0), want["loss"][training.STEPS :], rtol=1e-4)
    for one in found:
        for name in set(want) - {"loss"}:
            np.testing.assert_allclose(one[name], want[name], rtol=1e-4, atol=1e-5)


def test_geo(tmp_path):
    """GEO-SGD trainers that exchange changes every other step."""
    found = run("geo", tmp_path)
    names = set(found[0]) - {"loss"}
    assert np.mean([f["loss"][-6:] for f in found]) < np.mean([f["loss"][:6] for f in found])
    # without an exchange they would differ more; GEO does not make them equal
    alone = [training.run(*training.network(0, "sgd"), i, 2, rounds=4) for i in range(2)]

    def apart(both):
        return sum(np.square(np.subtract(both[0][n], both[1][n])).sum() for n in names)

    assert apart(found) < 0.8 * apart(alone)
    # the first trainer has saved its own model, before the other one stopped
    training.check_saved(str(tmp_path / "trainer0.model"), {n: np.array(found[0][n], "float32") for n in names})


@pytest.mark.parametrize("kind", ["async", "half_async"])
def test_asynchronous_training_converges(kind, tmp_path):
    found = run(kind, tmp_path)
    losses = np.mean([np.mean(f["loss"], 1) for f in found], 0)
    assert np.isfinite(losses).all()
    # The last parameters fit the batches better than the first.
    main, startup, loss = training.network(0, "none")
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        fits = []
        for _ in range(2):
            fits.append(np.mean([exe.run(main, feed=b, fetch_list=[loss])[0] for b in training.batches()]))
            for p in main.all_parameters():
                fluid.global_scope().find_var(p.name).get_tensor().set(np.array(found[0][p.name], "float32"), exe.place)
    assert fits[1] < fits[0]


class TestStrategies:
    @pytest.mark.parametrize(
        ("made", "kind", "mode", "config"),
        [
            (
                StrategyFactory.create_sync_strategy,
                SyncStrategy,
                DistributedMode.SYNC,
                {"half_async": True, "completely_not_async": True},
            ),
            (
                StrategyFactory.create_half_async_strategy,
                HalfAsyncStrategy,
                DistributedMode.HALF_ASYNC,
                {"half_async": True, "completely_not_async": False},
            ),
            (StrategyFactory.create_async_strategy, AsyncStrategy, DistributedMode.ASYNC, {"half_async": False}),
            (
                lambda: StrategyFactory.create_geo_strategy(7),
                GeoStrategy,
                DistributedMode.GEO,
                {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 7},
            ),
        ],
    )
    def test_what_they_set(self, made, kind, mode, config):
        strategy = made()
        assert type(strategy) is kind
        program = strategy.get_program_config()
        assert not program.sync_mode and program.runtime_split_send_recv
        assert {name: getattr(program, name) for name in config} == config
        assert strategy.get_trainer_runtime_config().mode == mode
        assert strategy.get_build_strategy().async_mode
        assert strategy.get_build_strategy().reduce_strategy == fluid.BuildStrategy.ReduceStrategy.Reduce
        assert strategy.get_execute_strategy().num_threads == 2
        waits = mode in (DistributedMode.SYNC, DistributedMode.HALF_ASYNC)
        assert strategy.get_execute_strategy().use_thread_barrier == waits

    def test_flags(self, capfd, monkeypatch):
        monkeypatch.setenv("FLAGS_communicator_send_wait_times", "9")
        config = TrainerRuntimeConfig()
        assert len(config.get_communicator_flags()) == 9
        assert "communicator_send_wait_times                 9" in repr(config)
        config.mode, config.runtime_configs["communicator_send_queue_size"] = DistributedMode.SYNC, "50"
        flags = config.get_communicator_flags()
        assert flags["communicator_send_queue_size"] == "2" and len(flags) == 4
        assert "communicator_send_queue_size becomes CPU_NUM = 2, not 50" in capfd.readouterr().err
        config.mode = 9
        with pytest.raises(ValueError, match="mode must be one of DistributedMode"):
            config.get_communicator_flags()
        geo = StrategyFactory.create_geo_strategy(5).get_trainer_runtime_config().get_communicator_flags()
        assert geo["communicator_max_merge_var_num"] == "5"

    @pytest.mark.parametrize(
        ("name", "key", "value"),
        [
            ("program_config", "min_block_size", 81920),
            ("server_runtime_config", "_rpc_send_thread_num", 24),
            ("execute_strategy", "num_threads", 8),
            ("build_strategy", "memory_optimize", True),
            ("trainer_runtime_config", "communicator_send_queue_size", "20"),
        ],
    )
    def test_they_can_be_changed(self, name, key, value):
        strategy = StrategyFactory.create_async_strategy()
        getattr(strategy, f"set_{name}")({key: value})
        now = getattr(strategy, f"get_{name}")()
        assert (now.runtime_configs[key] if name == "trainer_runtime_config" else getattr(now, key)) == value
        getattr(strategy, f"set_{name}")(type(now)())
        assert getattr(strategy, f"get_{name}")() is not now
        with pytest.raises(ValueError, match="has no 'unknown'"):
            getattr(strategy, f"set_{name}")({"unknown": 1})
        with pytest.raises(TypeError, match="a dict or"):
            getattr(strategy, f"set_{name}")(None)

    def test_of_pslib_and_debugging(self):
        strategy = StrategyFactory.create_async_strategy()
        strategy.set_pslib_runtime_config({"a": 1})
        assert strategy.get_pslib_runtime_config().get_runtime_configs() == {"a": 1}
        assert strategy.get_debug_opt() == {}
        strategy.set_debug_opt({"dump_param": ["w"]})
        assert strategy.get_debug_opt()["dump_param"] == ["w"] and strategy.get_debug_opt()["dump_file_num"] == 16

    def test_the_base_is_for_others(self):
        for name in ("program_config", "trainer_runtime_config", "build_strategy"):
            with pytest.raises(NotImplementedError, match="StrategyFactory"):
                getattr(DistributedStrategy(), f"set_{name}")({})


class TestFleet:
    def ours(self, role=Role.WORKER, index=0):
        fleet.init(UserDefinedRoleMaker(index, role, 2, ENDS))
        return fleet

    @pytest.mark.parametrize(
        ("config", "kind"),
        [
            ({}, SyncStrategy),
            ({"sync_mode": False}, HalfAsyncStrategy),
            ({"sync_mode": False, "runtime_split_send_recv": True}, AsyncStrategy),
            ({"sync_mode": False, "runtime_split_send_recv": True, "half_async": True}, HalfAsyncStrategy),
            ({"sync_mode": False, "runtime_split_send_recv": True, "geo_sgd_mode": True}, GeoStrategy),
        ],
    )
    def test_a_configuration_is_a_strategy(self, config, kind):
        given = fluid.DistributeTranspilerConfig()
        for name, value in config.items():
            setattr(given, name, value)
        given.slice_var_up = False
        made = self.ours().distributed_optimizer(fluid.optimizer.SGD(0.1), given)
        assert type(made._strategy) is kind and made._strategy.get_program_config() is given

    def test_programs(self):
        for role, index in ((Role.WORKER, 1), (Role.SERVER, 1)):
            ours = self.ours(role, index)
            main, startup, loss = training.network(0, "none")
            with fluid.program_guard(main, startup):
                made = ours.distributed_optimizer(fluid.optimizer.SGD(0.1), StrategyFactory.create_sync_strategy())
                made.minimize(loss)
            types = [op.type for op in ours.main_program.global_block().ops]
            if role == Role.SERVER:
                assert types == ["listen_and_serv"]
                assert ours.main_program.global_block().ops[0].attr("endpoint") == ENDS[1]
            else:
                assert types[-1] == "fetch_barrier" and "sgd" not in types
                assert any(op.type == "recv" for op in ours.startup_program.global_block().ops)
            assert [op.type for op in ours._origin_main_program.global_block().ops].count("sgd") == 4

    def test_refused(self):
        alone = FleetTranspiler()
        assert alone._inner_mode == PSMode.TRANSPILER
        for name in ("init_worker", "init_server", "run_server"):
            with pytest.raises((ValueError, AttributeError)):
                getattr(alone, name)()
        with pytest.raises(ValueError, match="call fleet.init first"):
            alone.distributed_optimizer(fluid.optimizer.SGD(0.1), AsyncStrategy())
        ours = self.ours()
        with pytest.raises(ValueError, match="an Optimizer is needed"):
            ours.distributed_optimizer("sgd", AsyncStrategy())
        for strategy in ({}, "sync"):
            with pytest.raises(TypeError, match="a DistributedStrategy or"):
                ours.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy)
        with pytest.raises(ValueError, match="one loss is needed"):
            ours.distributed_optimizer(fluid.optimizer.SGD(0.1), AsyncStrategy()).minimize([])
        with pytest.raises(NotImplementedError, match="PSLib"):
            ParameterServerOptimizer(fluid.optimizer.SGD(0.1), AsyncStrategy(), PSMode.PSLIB)
        exe = fluid.Executor(fluid.CPUPlace())
        for save, more in ((ours.save_persistables, ()), (ours.save_inference_model, (["x"], []))):
            with pytest.raises(TypeError, match="by an Executor"):
                save("exe", "folder", *more)
            with pytest.raises(TypeError, match="got a CompiledProgram"):
                save(exe, "folder", *more, main_program=fluid.CompiledProgram(fluid.Program()))
