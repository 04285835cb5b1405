"""Servers that are killed and started again where they kept their state: no gradient is lost, none counts twice."""
from __future__ import annotations

import random
import time

import numpy as np
import pytest
from killing import STEPS, Kills, campaign, check_history, check_same
from ps_killed import LEDGERS, once

NAMES = ["sgd+sparse+slice", "adam+sparse+slice"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a job ends with that keeps nothing and loses nobody."""
    jobs = {n: Kills(tmp_path_factory.mktemp("undisturbed"), n, FLAGS_ps_state_folder="") for n in NAMES}
    return {n: job.end() for n, job in jobs.items()}


@pytest.mark.operators("listen_and_serv")
@pytest.mark.parametrize("name, seed", [(NAMES[0], 1), (NAMES[1], 2)])
def test_a_killed_server_goes_on_with_the_same_bits(undisturbed, tmp_path, name, seed) -> None:
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
    assert said.count("the server goes on from its snapshot") == len(moments)


def test_without_a_log_the_job_goes_on_and_says_what_is_lost(tmp_path) -> None:
    job = Kills(tmp_path, NAMES[0], FLAGS_ps_log="0", FLAGS_ps_snapshot_steps="1000")
    job.until(0, 20)
    job.kill("server", 0)
    found = job.end()
    for i in range(2):
        assert "goes on from a snapshot" in job.job.log(f"trainer{i}"), job.job.log(f"trainer{i}")
        assert f"updates of trainer {i} are lost" in job.job.log("server0")
    lost = [(found[0][f"ledger{k}"] == 0).sum() for k in range(LEDGERS)]
    assert all(n == 0 or 35 <= n <= 50 for n in lost) and sum(lost) > 0, lost
    for k in range(LEDGERS):
        assert np.isin(found[0][f"ledger{k}"], (0, once())).all()


def test_free_trainers_lose_nothing_either(tmp_path) -> None:
    job = Kills(tmp_path, "sgd+async+sparse+slice")
    for moment, server in [(10, 0), (25, 1), (40, 0)]:
        job.until(0, moment)
        assert job.kill("server", server)
    for values in job.end():
        check_history(values, lambda: once(1))


def test_killed_trainers_are_waited_for_and_go_on_where_they_were(tmp_path) -> None:
    draw = random.Random(3)
    job = Kills(tmp_path, NAMES[0], FLAGS_ps_state_folder="")
    for moment in (8, 30):
        trainer = draw.randrange(2)
        job.until(trainer, moment)
        time.sleep(draw.uniform(0, 0.01))
        assert job.kill("trainer", trainer)
    check_history(job.end()[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_campaign(tmp_path, seed) -> None:
    """killing.py takes other seeds, and more kills, as arguments."""
    found = campaign(tmp_path, NAMES[0], seed, 10)
    assert found["servers"] > 5 and found["trainers"] > 5, found
