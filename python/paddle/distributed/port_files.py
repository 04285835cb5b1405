"""Port files: the ports of servers on this host (written by rust/ops/distributed/src/exchange/listen_and_serv.rs)."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["remove_stale_port_files", "port_file"]


def port_file(process: int | str) -> Path:
    """The file of the server of this process."""
    return Path(f"/tmp/paddle.{process}.port")


def remove_stale_port_files() -> None:
    """Removes the files of this user's servers that were killed."""
    every = port_file("*")
    for path in every.parent.glob(every.name):
        number = path.name.split(".")[1]
        try:
            if number.isdecimal() and path.lstat().st_uid == os.geteuid() and not Path("/proc", number).exists():
                path.unlink()
        except OSError:
            continue  # removed by another process
