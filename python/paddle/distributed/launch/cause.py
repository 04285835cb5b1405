"""Which rank failed first. The others fail because of it, and may well have ended before it has."""

from __future__ import annotations

import os
from typing import Any

import paddle._core as _core

KEY = "launch/cause"
_PATIENCE = 1.0


def tell(error: BaseException) -> None:
    """In a rank that cannot go on: say so in the rendezvous store, unless another rank has, or was the reason.

    To be called before the others are told. Never raises: the error that is on its way must not be lost.
    """
    master, rank = os.environ.get("PADDLE_MASTER"), os.environ.get("PADDLE_TRAINER_ID", "")
    # Unavailable is what operations raise when another rank is lost.
    if not master or not rank or getattr(error, "kind", "") == "Unavailable":
        return
    try:
        token = bytes.fromhex(os.environ.get("OAR_JOB_TOKEN", ""))
        store = _core.dist.Store.connect(master, os.environ.get("OAR_JOB_NAME", ""), token, _PATIENCE)
        store.compare_and_set(KEY, None, rank.encode(), _PATIENCE)
    except (RuntimeError, OSError, ValueError):
        return


def told(held: Any) -> int | None:
    """In who hosts the store: the rank that failed first, where one has said so."""
    if held is None:
        return None
    try:
        value = held.peek(KEY, _PATIENCE)
    except (RuntimeError, OSError):
        return None
    return int(value) if value is not None and value.isdigit() else None
