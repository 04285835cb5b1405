"""The rendezvous store of a job, which the first launcher hosts; there launchers tell each other their endpoints."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import closing
from typing import Any

import paddle._core as _core

from . import ports
from .args import LaunchError
from .environment import number
from .job import Job


def limit() -> float:
    """How long to wait for the other launchers, in seconds."""
    return float(number(os.environ, "OAR_INIT_TIMEOUT", 1) or 300)


def _address(name: str, patience: float) -> str:
    """The address of the first launcher's host, whose name a cluster may not know at once."""
    limit = time.monotonic() + patience
    while True:
        try:
            return ports.resolve(name)
        except LaunchError:
            if time.monotonic() > limit:
                raise
        time.sleep(0.5)


def host(job: Job) -> tuple[Any, str]:
    """Host the job's rendezvous where it belongs to this launcher. The store lives as long as what is returned.

    Returns:
        tuple: what holds the store (None where another launcher hosts it), and its address, ``ip:port``.

    Raises:
        LaunchError: when the port is taken, or the host unknown.
    """
    name, port = job.master
    ip = _address(name, 0 if job.hosts_master else limit())
    if not job.hosts_master:
        return None, ports.join(ip, port or 0)
    # An address that others know this machine by need not be one of its own (a cluster's service, NAT).
    bind = ip if ports.local(ip) else "0.0.0.0"
    try:
        store = _core.dist.Store.host(ports.join(bind, port or 0), job.name, bytes.fromhex(job.token))
    except (RuntimeError, OSError) as e:
        raise LaunchError(f"cannot host the rendezvous at {ports.join(ip, port or 0)}: {e}") from None
    return store, store.address if bind == ip else ports.join(ip, port or 0)


def _own_address(address: str) -> str:
    """This machine's address towards the rendezvous."""
    to, port = ports.split(address)
    with closing(socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)) as s:
        s.connect((to, port or 1))
        return s.getsockname()[0]


def settle(job: Job, held: Any, address: str) -> None:
    """Learn the endpoints of the other launchers' processes, where only those know them.

    Raises:
        LaunchError: when a launcher does not come in time, or has another number of processes.
    """
    if not job.unsettled:
        return
    until = time.monotonic() + limit()
    try:
        store = held or _core.dist.Store.connect(address, job.name, bytes.fromhex(job.token), limit())
    except (RuntimeError, OSError) as e:
        raise LaunchError(f"cannot reach the first launcher's rendezvous at {address}: {e}") from None
    here = _own_address(address)
    own = [ports.join(here, ports.split(p.endpoint)[1] or 0) for p in job.processes]
    store.set(f"launcher/{job.index}", json.dumps(own).encode(), limit())
    every: list[str] = []
    for i in range(job.nodes):
        try:
            theirs = json.loads(store.get(f"launcher/{i}", max(0.1, until - time.monotonic())))
        except RuntimeError as e:
            raise LaunchError(f"launcher {i} of {job.nodes} did not come: {e}") from None
        if len(theirs) != len(own):
            raise LaunchError(
                f"launcher {i} starts {len(theirs)} processes, this one ({job.index}) {len(own)}: "
                "--nproc_per_node must be the same everywhere"
            )
        every += theirs
    # Who hosts the store stays until everybody has read.
    store.barrier("launchers", job.nodes, limit())
    job.endpoints = every
    for p, endpoint in zip(job.processes, own, strict=True):
        p.endpoint = endpoint
        p.env["PADDLE_CURRENT_ENDPOINT"] = endpoint
        p.env["PADDLE_TRAINER_ENDPOINTS"] = ",".join(every)
