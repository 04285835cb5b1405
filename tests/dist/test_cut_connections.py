"""Repeatedly broken connections between trainers and servers: every gradient is applied once."""

from __future__ import annotations

import random
import socket
import threading

import pytest
from test_parameter_server import Job, endpoints

NAMES = ["momentum+sparse+slice", "sgd+slice"]


class Proxy:
    """A proxy of a server that closes each connection after a random number of bytes."""

    def __init__(self, server: str, seed: int) -> None:
        self.server, self.random, self.cuts, self.open = server, random.Random(seed), 0, True
        self.door = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.door.getsockname()[1]}"
        self.ends: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while self.open:
            try:
                one, _ = self.door.accept()
            except OSError:
                return
            host, port = self.server.split(":")
            try:
                other = socket.create_connection((host, int(port)))
            except OSError:
                one.close()  # the server does not listen yet, or has ended
                continue
            self.ends += [one, other]
            left = [self.random.randint(2000, 400_000)]
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self.pump, args=(*pair, left), daemon=True).start()

    def pump(self, source: socket.socket, sink: socket.socket, left: list[int]) -> None:
        try:
            while data := source.recv(min(1 << 14, max(left[0], 1))):
                left[0] -= len(data)
                sink.sendall(data)
                if left[0] <= 0:
                    self.cuts += 1
                    break
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self.open = False
        for s in (self.door, *self.ends):
            s.close()


def train(folder, proxies: bool, seed: int = 0) -> tuple[list[dict], int]:
    """The losses of both trainers, and the number of closed connections."""
    job = Job(folder)
    servers = [endpoints(2) for _ in NAMES]
    lines = [[Proxy(s, seed + i) for i, s in enumerate(places.split(","))] for places in servers] if proxies else []
    seen = [",".join(p.endpoint for p in line) for line in lines] or servers
    # shared memory would bypass the proxy; the token of a server's file is for its own port
    env = {"OAR_HEARTBEAT_LIMIT": "30", "OAR_SHARED_MEMORY": "0", "OAR_JOB_TOKEN": "00ff"}
    try:
        for i in range(2):
            job.start("server", i, ";".join(servers), NAMES, **env)
            job.start("trainer", i, ";".join(seen), NAMES, **env)
        found = [job.result(f"trainer{i}") for i in range(2)]
        for i in range(2):
            job.result(f"server{i}")
        return found, sum(p.cuts for line in lines for p in line)
    finally:
        job.end()
        for line in lines:
            for p in line:
                p.close()


@pytest.mark.operators("send", "recv", "send_barrier")
def test_cut_connections_change_no_bit(tmp_path) -> None:
    folders = [tmp_path / name for name in ("whole", "cut")]
    for f in folders:
        f.mkdir()
    whole, _ = train(folders[0], False)
    found, cuts = train(folders[1], True)
    assert cuts > 20
    assert found == whole
