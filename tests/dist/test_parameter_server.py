"""Parameter servers: trainers and servers as processes, against one process with the joined batches."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("ps_training.py")
LIMIT = 240
SYNC = """
sgd sgd+slice sgd+sparse sgd+sparse+slice momentum+slice momentum+sparse+slice adam+slice adam+sparse+slice
adagrad+sparse+slice adam+lazy+sparse+slice sgd+decay+slice adam+exponential+hash sgd+l2+clip+slice
""".split()
ASYNC = """sgd+argument+slice sgd+async+slice sgd+async+sparse+slice sgd+dc+slice sgd+async+exponential+slice
sgd+argument+background+slice sgd+async+sparse+background+slice""".split()


def endpoints(count: int) -> str:
    """Free ports of this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return ",".join(found)


class Job:
    """The processes of one job; all are ended in any case."""

    def __init__(self, folder: Path, script: Path = SCRIPT) -> None:
        self.folder, self.script, self.processes = folder, script, {}

    def start(self, role: str, index: int, places: str, names: list[str], **env: str) -> subprocess.Popen:
        tag = f"{role}{index}"
        out, log = self.folder / f"{tag}.json", self.folder / f"{tag}.log"
        command = [sys.executable, str(self.script), role, str(index), places, str(out), *names]
        everything = os.environ | {"OMP_NUM_THREADS": "1", "OAR_INIT_TIMEOUT": "60", "OAR_TIMEOUT": "120"} | env
        with log.open("a") as f:
            self.processes[tag] = subprocess.Popen(command, env=everything, stdout=f, stderr=f)
        return self.processes[tag]

    def wait(self, tag: str) -> int:
        return self.processes[tag].wait(LIMIT)

    def log(self, tag: str) -> str:
        return (self.folder / f"{tag}.log").read_text()

    def result(self, tag: str) -> dict[str, list[float]]:
        assert self.wait(tag) == 0, "\n".join(f"{t}: {self.log(t)[-2000:]}" for t in self.processes)
        return json.loads((self.folder / f"{tag}.json").read_text())

    def end(self) -> None:
        for p in self.processes.values():
            if p.poll() is None:
                p.kill()
                p.wait()


@pytest.fixture
def job(tmp_path: Path):
    made = Job(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The losses of both trainers and of the single process, by name."""
    job = Job(tmp_path_factory.mktemp("servers"))
    names = SYNC + ASYNC
    places = ";".join(endpoints(2) for _ in names)
    try:
        for role in ("server", "trainer"):
            for i in range(2):
                job.start(role, i, places, names)
        trainers = [job.result(f"trainer{i}") for i in range(2)]
        for i in range(2):
            job.result(f"server{i}")  # servers end when the trainers are complete
        job.start("alone", 0, "", names)
        return trainers, job.result("alone0")
    finally:
        job.end()


@pytest.mark.operators(
    "send", "recv", "send_barrier", "fetch_barrier", "listen_and_serv", "distributed_lookup_table", "fake_init"
)
@pytest.mark.parametrize("name", SYNC)
def test_synchronous_steps_are_those_of_one_process(trained, name) -> None:
    trainers, alone = trained
    mean = np.mean([t[name] for t in trainers], axis=0)
    np.testing.assert_allclose(mean, alone[name], rtol=1e-5, atol=1e-7)
    assert alone[name][-1] < alone[name][0]


@pytest.mark.operators("ref_by_trainer_id")
@pytest.mark.parametrize("name", ASYNC)
def test_asynchronous_trainers_converge(trained, name) -> None:
    trainers, alone = trained
    mean = np.mean([t[name] for t in trainers], axis=0)
    # asynchronous updates are applied each, synchronous ones averaged
    assert np.isfinite(mean).all()
    assert mean[-5:].mean() < 1.1 * alone[name][-5:][0]


def test_concurrent_blocks_have_the_same_bits(trained, job) -> None:
    """Servers with two threads run small blocks concurrently."""
    name = "adam+sparse+slice"
    places = endpoints(2)
    for i in range(2):
        job.start("server", i, places, [name], OMP_NUM_THREADS="2")
    for i in range(2):
        job.start("trainer", i, places, [name])
    for i in range(2):
        assert job.result(f"trainer{i}")[name] == trained[0][i][name]
