"""The NCCL transport of collectives on CUDA Tensors, through CuPy: ``OAR_BACKEND=nccl``, or
``new_group(backend="nccl")``.

The rendezvous store and failure detection are the usual ones, and CPU Tensors use the usual transport. NCCL itself
waits forever for a lost rank: the launcher, or the failure detector in the next exchange on the CPU, ends the others.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any

import numpy as np

import paddle._core as _core

__all__: list[str] = []


class _RingExchange:
    """The exchange of small values between the ranks of a ring, on the CPU; it does not keep the group alive."""

    def __init__(self, ring: int) -> None:
        self._ring = ring
        self.rank, self.world = self._group.rank, self._group.nranks

    @property
    def _group(self) -> Any:
        return _core.dist.get_group(self._ring)

    def share(self, value: bytes | None) -> bytes:
        """Broadcasts 128 bytes of rank 0."""
        room = _on_cpu(np.zeros(128, "uint8") if value is None else np.frombuffer(value, "uint8"))
        self._group.broadcast(room, self._group.ranks[0], (True, None))
        return room.numpy().tobytes()

    def send_count(self, count: int, to: int) -> None:
        """Sends a number to a rank."""
        self._group.send(_on_cpu(np.array([count])), self._group.ranks[to], (True, None))

    def recv_count(self, of: int) -> int:
        """Receives a number from a rank."""
        room = _on_cpu(np.zeros(1, "int64"))
        self._group.recv(room, self._group.ranks[of], (True, None))
        return int(room.numpy()[0])

    def barrier(self) -> None:
        """Waits for all ranks."""
        self._group.barrier((True, None))


def _on_cpu(array: np.ndarray) -> Any:
    return _core.Tensor(array.copy())


def _rings() -> Any:
    """The launchers of collectives over NCCL; RuntimeError if NCCL is not available."""
    from paddle import _cuda
    from paddle._cuda.comm import rings

    found = _cuda.runtime()
    if found is None:
        raise RuntimeError(f"collectives over NCCL need a CUDA device: {_cuda.reason()}")
    found.machine.nccl()
    return rings


def begin() -> None:
    """If the environment selects NCCL: makes it the transport of all later rings."""
    if os.environ.get("OAR_BACKEND", "").strip().lower() == "nccl":
        _rings().use(_RingExchange)


def group_of(group: Any, backend: str | None) -> Any:
    """The new group, over NCCL if `backend` selects it; an NCCL ring of an earlier group with its id is dropped."""
    rings = sys.modules.get("paddle._cuda.comm.rings")
    if backend == "nccl":
        made = _rings()
        made.use(_RingExchange, group._number)
        weakref.finalize(group, made.release, group._number, _lives).atexit = False
    elif rings is not None:
        rings.forget(group._number)
    return group


def _lives(ring: int) -> bool:
    try:
        _core.dist.get_group(ring)
    except ValueError:
        return False
    return True


def serves(ring: int) -> bool:
    """Whether a ring uses NCCL."""
    from paddle._cuda.comm import rings

    return rings.serves(ring)
