"""The files by which servers publish their ports (written in rust/ops/distributed/src/exchange/listen.rs)."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["forget_the_dead", "port_file"]


def port_file(process: int | str) -> Path:
    """The file of the server that is this process."""
    return Path(f"/tmp/paddle.{process}.port")


def forget_the_dead() -> None:
    """Remove the files of servers of this user that were killed since."""
    every = port_file("*")
    for path in every.parent.glob(every.name):
        number = path.name.split(".")[1]
        try:
            if number.isdecimal() and path.lstat().st_uid == os.geteuid() and not Path("/proc", number).exists():
                path.unlink()
        except OSError:
            continue  # somebody else has been quicker
