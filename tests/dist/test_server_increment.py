"""Incremental training: a job with servers saves the files of one process, from which another job continues."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
import paddle.fluid as fluid
import ps_training
import pytest
from test_parameter_server import Job, endpoints


@pytest.mark.parametrize("name", ["adam+sparse+slice", "momentum", "sgd"])
def test_a_job_continues_from_a_saved_model(tmp_path, name) -> None:
    job, halves = Job(tmp_path), [f"{name}+save", f"{name}+load"]
    places = ";".join(endpoints(2) for _ in halves)
    try:
        for role in ("server", "trainer"):
            for i in range(2):
                job.start(role, i, places, halves, SAVED=str(tmp_path / "saved"))
        job.start("alone", 0, "", [name])
        trainers, alone = [job.result(f"trainer{i}") for i in range(2)], job.result("alone0")[name]
    finally:
        job.end()
    found = np.mean([t[halves[0]] + t[halves[1]] for t in trainers], axis=0)
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-7)
    assert "no operators to run" not in job.log("trainer0")
    files = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"table", "w0", "b0", "w1", "b1"} <= files and not [name for name in files if ".block" in name]
    check_models(str(tmp_path / "saved"))


def check_models(folder: str) -> None:
    """Models of a trainer's Program look up locally, and predict by the values that `save_persistables` wrote."""
    feed = {k: v for k, v in ps_training.batch(5, 5).items() if k != "label"}
    paddle.enable_static()
    try:
        executor, found = fluid.Executor(fluid.CPUPlace()), []
        with fluid.scope_guard(fluid.Scope()):
            main, startup = fluid.Program(), fluid.Program()
            with fluid.program_guard(main, startup), fluid.unique_name.guard():
                ps_training.build(set())
            fluid.io.load_params(executor, folder, main)
            forward = main._prune_with_input([*feed], [ps_training.prediction(main)])
            found += executor.run(forward, feed=feed, fetch_list=[ps_training.prediction(main)])
        loads = [
            lambda: fluid.io.load_inference_model(folder + ".files", executor),
            lambda: fluid.io.load_inference_model(folder + ".file", executor, None, "all"),
            lambda: paddle.static.load_inference_model(folder + ".pair", executor),
        ]
        for load in loads:
            with fluid.scope_guard(fluid.Scope()):
                program, feeds, fetches = load()
                assert "distributed_lookup_table" not in {op.type for op in program.global_block().ops}
                assert feeds == [*feed]
                found += executor.run(program, feed=feed, fetch_list=fetches)
        for value in found[1:]:
            np.testing.assert_array_equal(value, found[0])
        assert Path(folder + ".bytes").read_bytes() == Path(folder + ".pair.pdiparams").read_bytes()
    finally:
        paddle.disable_static()


@pytest.fixture
def transpiled():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
        yield fluid.DistributeTranspiler()
    paddle.disable_static()


def test_a_program_of_no_server_loads_nothing_and_says_so(transpiled, tmp_path) -> None:
    transpiled.transpile(0, pservers="127.0.0.1:6001,127.0.0.1:6002", trainers=1)
    program, executor = transpiled.get_trainer_program(wait_port=False), fluid.Executor(fluid.CPUPlace())
    with pytest.warns(UserWarning, match="nothing lies at 127.0.0.1:6174"):
        fluid.io.load_persistables(executor, str(tmp_path), program)
    program._ps_endpoint = ""
    with pytest.raises(ValueError, match="current_endpoint"):
        fluid.io.load_persistables(executor, str(tmp_path), program)
    with pytest.raises(ValueError, match="must be a trainer's or server's Program"):
        fluid.io._save_distributed_persistables(executor, str(tmp_path), fluid.Program())
    with pytest.raises(TypeError, match="must be a Program"):
        fluid.io._load_distributed_persistables(executor, str(tmp_path), None)
