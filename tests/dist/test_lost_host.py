"""Eight ranks on four hosts (network namespaces) train a model; one host is lost."""

from __future__ import annotations

import re
import time

import hosts_training as job
import launching
import numpy as np
import paddle
import pytest
from launching import gone, pids
from namespaces import Hosts

pytestmark = pytest.mark.slow
LOST = 2


@pytest.fixture(autouse=True)
def _dygraph():
    paddle.disable_static()


#: seconds of delay and of jitter, probability of loss, seed
SLOW = (0.002, 0.001, 0.01, 7)


@pytest.mark.parametrize("network", ["good", "narrow", "slow"])
@pytest.mark.parametrize("how", ["killed", "unplugged"])
def test_a_host_is_lost(tmp_path, monkeypatch, how, network):
    monkeypatch.setattr(launching, "SCRIPT", job.__file__)
    folder = tmp_path / "said"
    folder.mkdir()
    with Hosts(4, tmp_path, SLOW if network == "slow" else None) as hosts:
        for i in range(4 if network == "narrow" else 0):
            hosts.worsen(i, "100mbit", 16000)  # a queue of 10 packets: more are dropped
        flags = ["--nproc_per_node=2", "--ips=" + ",".join(hosts.ips)]
        jobs = [hosts.launch(i, flags, str(folder)) for i in range(4)]
        try:
            numbers = pids(folder, 8)
            start = time.monotonic()
            hosts.kill(LOST) if how == "killed" else hosts.cut(LOST)
            for i, started in enumerate(jobs):
                _, err = started.communicate(timeout=120)
                assert started.returncode, (i, err)
            assert not gone(numbers, 5)
            if network == "slow":
                came, lost = hosts.packets()
                assert 0.005 < lost / came < 0.02 or how == "unplugged", (came, lost)
            assert network != "narrow" or all(hosts.lost(i) for i in range(4) if i != LOST)
        finally:
            for started in jobs:
                started.kill()
                started.communicate()
    # the model equals that of one process on whole batches
    alone = job.Training()
    for step in range(job.STEPS):
        alone.step(step)
    for rank in range(8):
        with np.load(folder / f"trained.{rank}.npz") as found:
            for name, value in alone.parameters().items():
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
    took = []
    for rank in (r for r in range(8) if r // 2 != LOST):
        at, text = (folder / f"error.{rank}").read_text().split(" ", 1)
        took.append(float(at) - start)
        named = re.search(r"rank (\d) on (node\d)\b.*? (died|has been silent for [\d.]+ s)", text)
        assert named and int(named[1]) // 2 == LOST and named[2] == f"node{LOST}", (rank, text)
        assert named[3] == "died" or how == "unplugged", (rank, text)
    print(f"{how}, {network} network: errors after {min(took):.2f} to {max(took):.2f} s")
