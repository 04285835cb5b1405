"""Waiting for servers to listen."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence

__all__ = ["wait_server_ready"]

_REPORT_AFTER = 3.0


def _listens(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def wait_server_ready(endpoints: Sequence[str]) -> None:
    """Returns once every server listens.

    Args:
        endpoints (list of str): ``ip:port`` of each.

    Raises:
        TimeoutError: naming the missing servers, after ``OAR_INIT_TIMEOUT`` seconds (300 where that is not set).

    Examples:
        >>> from paddle.distributed.checkport import wait_server_ready
        >>> wait_server_ready([])
    """
    if isinstance(endpoints, str):
        raise TypeError("wait_server_ready: a list of endpoints is needed, got a str")
    limit = float(os.environ.get("OAR_INIT_TIMEOUT") or 300)
    start, reported, pause = time.monotonic(), False, 0.02
    missing = [e for e in endpoints if not _listens(e)]
    while missing:
        waited = time.monotonic() - start
        if waited > limit:
            raise TimeoutError(f"no server listens at {', '.join(missing)} after {waited:.0f} s")
        if waited > _REPORT_AFTER and not reported:
            sys.stderr.write(f"waiting for the servers at {', '.join(missing)}\n")
            reported = True
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)
        missing = [e for e in missing if not _listens(e)]
