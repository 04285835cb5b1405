"""Servers and stores without OAR_JOB_TOKEN: processes of their user connect, others are refused with a named error."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import socket
import struct
import time
from pathlib import Path

import pytest
from killing import Forked, Kills, check_history
from paddle import _core

TOKENS = Path(f"/tmp/oar-{os.geteuid()}")


def files(address: str) -> list[Path]:
    """The token files of the listener at the address."""
    return list(TOKENS.glob(f"{address.rsplit(':', 1)[1]}-*.token"))


class Raw:
    """A connector that passes the handshake by itself; purposes are those of rust/net/src/handshake.rs."""

    def __init__(self, address: str, token: bytes, job: str = "", purpose: int = 1) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        challenge = self.read(32)
        hello = struct.pack("<4sHBxIIIIQ", b"OARH", int.from_bytes(challenge[4:6], "little"), purpose, 0, 0, 0, 0, 0)
        hello += hashlib.sha256(job.encode()).digest()[:16] + os.urandom(16) + bytes(32)
        hello += hmac.digest(token, b"oar connect" + challenge + hello, "sha256")
        self.socket.sendall(hello)
        self.code = self.read(40)[4]

    def read(self, count: int) -> bytes:
        got = b""
        while len(got) < count and (more := self.socket.recv(count - len(got))):
            got += more
        return got


def test_a_store_has_a_token_of_its_own():
    store = _core.dist.Store.host("127.0.0.1:0", "job")
    (file,) = files(store.address)
    assert file.stat().st_mode & 0o7777 == 0o600 and TOKENS.stat().st_mode & 0o7777 == 0o700
    other = _core.dist.Store.connect(store.address, "job")
    other.set("key", b"value")
    assert store.get("key") == b"value"
    token = bytes.fromhex(file.read_text())
    assert [Raw(store.address, t, j).code for t, j in ((token, "job"), (b"", "job"), (token, "other"))] == [0, 1, 5]
    with pytest.raises(RuntimeError, match="it belongs to another job"):
        _core.dist.Store.connect(store.address, "other")
    del store, other
    assert not file.exists()


def test_a_frame_without_a_code_ends_the_connection():
    store = _core.dist.Store.host("127.0.0.1:0", "job", b"secret")
    raw = Raw(store.address, b"secret", "job")
    assert raw.code == 0
    raw.socket.sendall(bytes(24))
    assert raw.read(1) == b""


def test_a_listener_with_a_token_says_how_to_share_it():
    store = _core.dist.Store.host("127.0.0.1:0", "job", b"secret")
    assert not files(store.address)
    with pytest.raises(RuntimeError, match="set OAR_JOB_TOKEN to the same value for all processes .*openssl"):
        _core.dist.Store.connect(store.address, "job")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_is_refused():
    store = _core.dist.Store.host("127.0.0.1:0", "job")
    (file,) = files(store.address)
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            try:
                file.read_text()
            except PermissionError:
                said = f"no token, code {Raw(store.address, b'', 'job').code}: "
                try:
                    _core.dist.Store.connect(store.address, "job", timeout=10.0)
                except RuntimeError as e:
                    said += str(e)
        finally:
            os.write(there, said.encode())
            os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(here, 10000).decode()
    assert re.match("no token, code 1: .*left no token for user 65534", said), said


@pytest.fixture
def first(tmp_path):
    """A job without a token that is in the middle of its steps."""
    limits = {"OAR_INIT_TIMEOUT": "20", "OAR_TIMEOUT": "30", "FLAGS_rpc_deadline": "15000", "OAR_HEARTBEAT_LIMIT": "2"}
    job = Kills(tmp_path / "first", "sgd+sparse+slice", 60, FLAGS_ps_state_folder="", PAUSE="0.2", **limits)
    yield job, limits
    job.job.end()


@pytest.mark.parametrize("name", ["", "another"])
def test_trainers_of_another_job_are_refused_and_change_nothing(first, tmp_path, name):
    job, limits = first
    job.until(0, 3)
    limits = limits | {"OAR_JOB_NAME": name, "STEPS": "60", "OMP_NUM_THREADS": "1"}
    # forks start at once: the first job is still in its steps
    logs = [tmp_path / f"trainer{i}.log" for i in range(2)]
    second = [
        Forked("trainer", i, job.places, tmp_path / f"trainer{i}.npz", job.name, log, limits)
        for i, log in enumerate(logs)
    ]
    try:
        assert all(trainer.wait() == 1 for trainer in second)
        for i, log in enumerate(logs):
            why = "it belongs to another job" if name else f"trainer {i} of this server's job is alive and connected"
            assert why in log.read_text(), log.read_text()[-2000:]
    finally:
        for trainer in second:
            trainer.kill()
    # the other job's server cannot take the port either
    assert job.job.processes["trainer0"].poll() is None, job.job.log("trainer0")[-2000:]
    check_history(job.end()[0])


def test_the_files_of_killed_servers_are_removed(first):
    job, _ = first
    job.until(0, 1)
    place = job.places.split(",")[0]
    (file,) = files(place)
    job.job.processes["server0"].kill()
    job.job.processes["server0"].wait()
    assert file.exists()
    _core.dist.Store.host("127.0.0.1:0")
    end = time.monotonic() + 10
    while file.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not file.exists()
