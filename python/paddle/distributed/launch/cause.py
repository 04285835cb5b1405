"""The rank that failed first, in the rendezvous store: the others fail because of it, and may end before it."""

from __future__ import annotations

import os
from typing import Any

import paddle._core as _core

KEY = "launch/cause"
_PATIENCE = 1.0


def report(error: BaseException) -> None:
    """In a failed rank: records it in the rendezvous store, unless another rank is recorded or caused the failure.

    Call it before the failure is reported to the other ranks. Never raises: the original error must not be lost.
    """
    master, rank = os.environ.get("PADDLE_MASTER"), os.environ.get("PADDLE_TRAINER_ID", "")
    # operations raise Unavailable when another rank is lost
    if not master or not rank or getattr(error, "kind", "") == "Unavailable":
        return
    try:
        token = bytes.fromhex(os.environ.get("OAR_JOB_TOKEN", ""))
        store = _core.dist.Store.connect(master, os.environ.get("OAR_JOB_NAME", ""), token, _PATIENCE)
        store.compare_and_set(KEY, None, rank.encode(), _PATIENCE)
    except (RuntimeError, OSError, ValueError):
        return


def reported(held: Any) -> int | None:
    """In the host of the store (`held`): the recorded rank, or None."""
    if held is None:
        return None
    try:
        value = held.peek(KEY, _PATIENCE)
    except (RuntimeError, OSError):
        return None
    return int(value) if value is not None and value.isdigit() else None
