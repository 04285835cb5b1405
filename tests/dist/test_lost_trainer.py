"""A trainer is killed: the job ends with an error that names it, or continues without it, by the setting."""

from __future__ import annotations

import pytest
from test_parameter_server import Job, endpoints

NAME = "sgd+slice+die"


def start(folder, **env: str) -> Job:
    job, places = Job(folder), endpoints(2)
    for i in range(2):
        job.start("server", i, places, [NAME], OAR_HEARTBEAT_LIMIT="1", **env)
        job.start("trainer", i, places, [NAME], OAR_HEARTBEAT_LIMIT="1", **env)
    return job


@pytest.mark.operators("listen_and_serv")
def test_the_job_ends_and_names_it(tmp_path) -> None:
    job = start(tmp_path)
    try:
        codes = {tag: job.wait(tag) for tag in ("server0", "server1", "trainer0", "trainer1")}
        assert codes["trainer1"] == 9 and codes["server0"] == codes["server1"] == codes["trainer0"] == 1, codes
        for tag in ("server0", "server1", "trainer0"):
            assert "trainer 1 died" in job.log(tag), job.log(tag)[-2000:]
    finally:
        job.end()


def test_the_others_continue_if_enabled(tmp_path) -> None:
    job = start(tmp_path, OAR_PS_LOST_TRAINER="continue")
    try:
        losses = job.result("trainer0")[NAME]
        assert len(losses) == 20 and losses[-1] < losses[0]
        assert job.wait("server0") == job.wait("server1") == 0
    finally:
        job.end()
