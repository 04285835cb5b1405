"""Data parallelism's helpers of 1.x: whether this process works with others, and equal parameters at the start."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import paddle._core as _core
from paddle.distributed import broadcast

__all__: list[str] = []


_given: Any = None


def _is_parallel_ctx_initialized() -> bool:
    """Whether this process has joined a job of several, or has been given a context to do so."""
    return _given is not None or _core.dist.joined()


def _is_data_parallel_mode() -> bool:
    """Whether it has, and its environment tells of several processes."""
    return _is_parallel_ctx_initialized() and int(os.getenv("PADDLE_TRAINERS_NUM", "1")) > 1


def _set_parallel_ctx(context: Any) -> None:
    """Keep a context, an object with a method `init`, for `_init_parallel_ctx`; once in a process."""
    global _given
    assert _given is None, "ParallelContext has been set up before"
    _given = context


def _init_parallel_ctx() -> None:
    """Join the other processes by the context that was given."""
    assert _given is not None, "ParallelContext has not been set up"
    _given.init()


def _broadcast_parameters(parameters: Iterable[Any]) -> None:
    """Every rank's trainable parameters become those of rank 0, but for the parts of layers that are split."""
    for p in parameters:
        if getattr(p, "is_distributed", False) or not getattr(p, "trainable", False):
            continue
        broadcast(p, 0)
