"""Killed and restarted servers with a state folder: every gradient is applied exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from killing import SCRIPT, STEPS, Kills, campaign, check_history, check_same
from launching import clean_environment
from ps_killed import LEDGERS, once
from test_parameter_server import LIMIT

NAMES = ["sgd+sparse+slice", "adam+sparse+slice"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of an undisturbed job without a state folder."""
    jobs = {n: Kills(tmp_path_factory.mktemp("undisturbed"), n, FLAGS_ps_state_folder="") for n in NAMES}
    return {n: job.end() for n, job in jobs.items()}


@pytest.mark.operators("listen_and_serv")
@pytest.mark.parametrize("name, seed", [(NAMES[0], 1), (NAMES[1], 2)])
def test_a_killed_server_resumes_with_the_same_bits(undisturbed, tmp_path, name, seed) -> None:
    draw = random.Random(seed)
    job = Kills(tmp_path, name)
    moments = sorted(draw.sample(range(1, STEPS - 5), 4))
    for moment in moments:
        job.until(draw.randrange(2), moment)
        time.sleep(draw.uniform(0, 0.01))
        assert job.kill("server", draw.randrange(2))
    found = job.end()
    if name == NAMES[0]:
        check_history(found[0])
    check_same(found, undisturbed[name])
    said = job.job.log("server0") + job.job.log("server1")
    assert said.count("the server continues from its snapshot") == len(moments)


def test_without_a_log_the_job_goes_on_and_says_what_is_lost(tmp_path) -> None:
    job = Kills(tmp_path, NAMES[0], FLAGS_ps_log="0", FLAGS_ps_snapshot_steps="1000")
    job.until(0, 20)
    job.kill("server", 0)
    found = job.end()
    for i in range(2):
        assert "continues from a snapshot" in job.job.log(f"trainer{i}"), job.job.log(f"trainer{i}")
        assert f"updates of trainer {i} are lost" in job.job.log("server0")
    lost = [(found[0][f"ledger{k}"] == 0).sum() for k in range(LEDGERS)]
    assert all(n == 0 or 35 <= n <= 50 for n in lost) and sum(lost) > 0, lost
    for k in range(LEDGERS):
        assert np.isin(found[0][f"ledger{k}"], (0, once())).all()


def test_asynchronous_trainers_lose_no_gradient(tmp_path) -> None:
    job = Kills(tmp_path, "sgd+async+sparse+slice")
    for moment, server in [(10, 0), (25, 1), (40, 0)]:
        job.until(0, moment)
        assert job.kill("server", server)
    for values in job.end():
        check_history(values, lambda: once(1))


def test_killed_trainers_are_waited_for_and_resume(tmp_path) -> None:
    draw = random.Random(3)
    job = Kills(tmp_path, NAMES[0], FLAGS_ps_state_folder="")
    for moment in (8, 30):
        trainer = draw.randrange(2)
        job.until(trainer, moment)
        time.sleep(draw.uniform(0, 0.01))
        assert job.kill("trainer", trainer)
    check_history(job.end()[0])


def test_a_server_that_is_asked_to_end_does_and_its_trainers_get_an_error(tmp_path) -> None:
    job = Kills(tmp_path, NAMES[0], OAR_INIT_TIMEOUT="5")
    job.until(0, 5)
    job.job.processes["server0"].terminate()
    codes = {tag: job.job.wait(tag) for tag in ("server0", "trainer0", "trainer1")}
    job.job.end()
    assert all(codes.values()), codes
    for i in range(2):
        assert job.places.split(",")[0] in job.job.log(f"trainer{i}")


def begin(folder, **env: str) -> subprocess.Popen[str]:
    """Starts the same job under the launcher."""
    line = [
        sys.executable,
        "-m",
        "paddle.distributed.launch",
        "--server_num=2",
        "--worker_num=2",
        str(SCRIPT),
        "launched",
    ]
    everything = clean_environment(OMP_NUM_THREADS="1", OAR_TIMEOUT="120", STEPS=str(STEPS), **env)
    return subprocess.Popen(
        [*line, str(folder), NAMES[0]], cwd=folder, env=everything, text=True, stderr=subprocess.PIPE
    )


def until(job: subprocess.Popen[str], folder, steps: int) -> None:
    path, end = folder / "trainer0.npz.steps", time.monotonic() + LIMIT
    while not path.exists() or len(path.read_text().split()) < steps:
        assert job.poll() is None and time.monotonic() < end, job.communicate()[1]
        time.sleep(0.01)


def kill(folder, tag: str) -> None:
    os.kill(int((folder / f"{tag}.pid").read_text()), signal.SIGKILL)


def test_the_launcher_starts_what_was_killed_again(tmp_path) -> None:
    job = begin(tmp_path, FLAGS_ps_state_folder=str(tmp_path / "state"), OAR_PS_LOST_TRAINER="wait")
    try:
        for steps, tag in ((10, "server1"), (25, "trainer1"), (40, "server0")):
            until(job, tmp_path, steps)
            kill(tmp_path, tag)
        said = job.communicate(timeout=LIMIT)[1]
        assert job.returncode == 0, said
        assert said.count("was ended by SIGKILL: it is started again") == 3
        check_history(dict(np.load(tmp_path / "trainer0.npz")))
    finally:
        job.kill()


def test_the_launcher_lets_the_others_go_on_without_a_worker(tmp_path) -> None:
    job = begin(tmp_path, OAR_PS_LOST_TRAINER="continue", OAR_HEARTBEAT_LIMIT="1")
    try:
        until(job, tmp_path, 10)
        kill(tmp_path, "trainer1")
        said = job.communicate(timeout=LIMIT)[1]
        assert job.returncode == 0 and "rank 1" in said and "the others go on without it" in said, said
        times = np.load(tmp_path / "trainer0.npz")["ledger0"] / once()
        assert (times[0] == 1).all() and np.isin(times[1], (0, 1)).all() and times[1].sum() < STEPS
    finally:
        job.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_campaign(tmp_path, seed) -> None:
    """killing.py has arguments for other seeds and more kills."""
    found = campaign(tmp_path, NAMES[0], seed, 10)
    assert found["servers"] > 5 and found["trainers"] > 5, found
