"""Helpers of data parallelism in 1.x: the parallel context, and the broadcast of initial parameters."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import paddle._core as _core
from paddle.distributed import broadcast

__all__: list[str] = []


_context: Any = None


def _is_parallel_ctx_initialized() -> bool:
    """Whether this process has joined a job of several processes, or has a context to do so."""
    return _context is not None or _core.dist.joined()


def _is_data_parallel_mode() -> bool:
    """Whether it has, and the environment describes several processes."""
    return _is_parallel_ctx_initialized() and int(os.getenv("PADDLE_TRAINERS_NUM", "1")) > 1


def _set_parallel_ctx(context: Any) -> None:
    """Stores a context, an object with a method `init`, for `_init_parallel_ctx`; once per process."""
    global _context
    assert _context is None, "ParallelContext has been set up before"
    _context = context


def _init_parallel_ctx() -> None:
    """Joins the other processes through the stored context."""
    assert _context is not None, "ParallelContext has not been set up"
    _context.init()


def _broadcast_parameters(parameters: Iterable[Any]) -> None:
    """Broadcasts the trainable parameters of rank 0, except those of layers that are split over ranks."""
    for p in parameters:
        if getattr(p, "is_distributed", False) or not getattr(p, "trainable", False):
            continue
        broadcast(p, 0)
