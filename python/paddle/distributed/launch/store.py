"""The rendezvous store of a job, hosted by the first launcher."""
from __future__ import annotations

from typing import Any

from . import ports
from .args import LaunchError
from .job import Job


def host(job: Job) -> tuple[Any, str]:
    """Host the job's rendezvous where it belongs to this launcher. The store lives as long as what is returned.

    Returns:
        tuple: what holds the store (None where another launcher hosts it), and its address, ``ip:port``.

    Raises:
        LaunchError: when the port is taken.
    """
    name, port = job.master
    ip = ports.resolve(name)
    if not job.hosts_master:
        return None, ports.join(ip, port or 0)
    from paddle import _core

    if not hasattr(_core, "dist"):
        return None, ""
    # An address that others know this machine by need not be one of its own (a cluster's service, NAT).
    bind = ip if ports.local(ip) else "0.0.0.0"
    try:
        store = _core.dist.Store.host(ports.join(bind, port or 0), job.name, bytes.fromhex(job.token))  # type: ignore
    except RuntimeError as e:
        raise LaunchError(f"cannot host the rendezvous at {ports.join(ip, port or 0)}: {e}") from None
    return store, store.address if bind == ip else ports.join(ip, port or 0)
