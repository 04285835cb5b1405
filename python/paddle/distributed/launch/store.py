"""The rendezvous store of a job, hosted by launcher 0: launchers exchange endpoints through it."""

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
    """The timeout for other launchers, in seconds."""
    return float(number(os.environ, "OAR_INIT_TIMEOUT", 1) or 300)


def _address(name: str, patience: float) -> str:
    """The address of launcher 0's host; resolution is retried, since a cluster may know the name late."""
    limit = time.monotonic() + patience
    while True:
        try:
            return ports.resolve(name)
        except LaunchError:
            if time.monotonic() > limit:
                raise
        time.sleep(0.5)


def host(job: Job) -> tuple[Any, str]:
    """Hosts the rendezvous store, in the launcher that it belongs to. The store lives as long as the result.

    Returns:
        tuple: the store (None in other launchers), and its address, ``ip:port``.

    Raises:
        LaunchError: when the port is in use, or the host unknown.
    """
    name, port = job.master
    ip = _address(name, 0 if job.hosts_master else limit())
    if not job.hosts_master:
        return None, ports.join(ip, port or 0)
    # The public address of this machine may not be a local one (a cluster's service, NAT).
    bind = ip if ports.local(ip) else "0.0.0.0"
    try:
        store = _core.dist.Store.host(ports.join(bind, port or 0), job.name, bytes.fromhex(job.token))
    except (RuntimeError, OSError) as e:
        raise LaunchError(f"cannot host the rendezvous at {ports.join(ip, port or 0)}: {e}") from None
    return store, store.address if bind == ip else ports.join(ip, port or 0)


def _own_address(address: str) -> str:
    """The local address of a connection to the rendezvous."""
    to, port = ports.split(address)
    with closing(socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)) as s:
        s.connect((to, port or 1))
        return s.getsockname()[0]


def settle(job: Job, held: Any, address: str) -> None:
    """Exchanges the endpoints of processes between launchers, where they are not known yet.

    Raises:
        LaunchError: when a launcher does not join in time, or has another number of processes.
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
    # the host of the store waits until all have read
    store.barrier("launchers", job.nodes, limit())
    job.endpoints = every
    for p, endpoint in zip(job.processes, own, strict=True):
        p.endpoint = endpoint
        p.env["PADDLE_CURRENT_ENDPOINT"] = endpoint
        p.env["PADDLE_TRAINER_ENDPOINTS"] = ",".join(every)
