"""A job of servers on hosts whose network delays and loses packets has the bits of one on a good network."""

from __future__ import annotations

import json
import sys

import pytest
from launching import clean_environment
from namespaces import TOKEN, Hosts
from test_parameter_server import SCRIPT, Job, endpoints

pytestmark = pytest.mark.slow
NAMES = ["sgd+slice", "adam+sparse+slice"]


def test_two_servers_and_two_trainers(tmp_path):
    env = clean_environment(OMP_NUM_THREADS="1", OAR_INIT_TIMEOUT="120", OAR_TIMEOUT="120", OAR_JOB_TOKEN=TOKEN)
    with Hosts(4, tmp_path, (0.005, 0.002, 0.02, 3)) as hosts:
        places = ";".join(",".join(f"{ip}:{7164 + k}" for ip in hosts.ips[:2]) for k in range(len(NAMES)))
        jobs = {}
        for role, first in (("server", 0), ("trainer", 2)):
            for i in range(2):
                out = tmp_path / f"slow.{role}{i}"
                words = [sys.executable, str(SCRIPT), role, str(i), places, str(out), *NAMES]
                jobs[role, i] = hosts.on(first + i, words, env)
        try:
            for process, started in jobs.items():
                _, err = started.communicate(timeout=240)
                assert started.returncode == 0, (process, err[-2000:])
            came, lost = hosts.packets()
        finally:
            for started in jobs.values():
                started.kill()
                started.communicate()
    assert 0.01 < lost / came < 0.03, (came, lost)
    slow = [json.loads((tmp_path / f"slow.trainer{i}").read_text()) for i in range(2)]
    job = Job(tmp_path)
    try:
        places = ";".join(endpoints(2) for _ in NAMES)
        for role in ("server", "trainer"):
            for i in range(2):
                job.start(role, i, places, NAMES)
        good = [job.result(f"trainer{i}") for i in range(2)]
    finally:
        job.end()
    assert slow == good
