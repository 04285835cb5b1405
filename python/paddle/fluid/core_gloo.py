"""Gloo of Paddle's core: collectives of small values among processes that meet in a folder or at an HTTP server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddle.distributed.fleet.base.exchange import Board, Exchange, Folder, Web

__all__ = ["Gloo"]

#: what is done to the ranks' elements
_MODES: dict[str, Any] = {"sum": sum, "max": max, "min": min}


class Gloo:
    """A group of processes; the setters say who is in it and where they meet, then :meth:`init` begins.

    Examples:
        >>> import tempfile
        >>> from paddle.fluid import core
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     alone = core.Gloo()
        ...     alone.set_rank(0)
        ...     alone.set_size(1)
        ...     alone.set_hdfs_store(folder, "", "")
        ...     alone.init()
        ...     alone.all_reduce([1, 2], "sum"), alone.all_gather(3)
        ([1, 2], [3])
    """

    def __init__(self) -> None:
        self._rank, self._size, self._prefix, self._seconds = 0, 1, "", 3600.0
        self._board: Board | None = None
        self._group: Exchange | None = None

    def set_rank(self, rank: int) -> None:
        """Says which process this is."""
        self._rank = rank

    def set_size(self, size: int) -> None:
        """Says how many there are."""
        self._size = size

    def set_prefix(self, prefix: str) -> None:
        """Keeps this group apart from others that meet at the same place."""
        self._prefix = prefix

    def set_iface(self, iface: str) -> None:
        """Names the network interface of Paddle's Gloo; no data goes through one here."""

    def set_timeout_seconds(self, init_seconds: int, run_seconds: int) -> None:
        """Says how long to wait for others, at the start and later; the longer counts."""
        self._seconds = float(max(init_seconds, run_seconds))

    def set_hdfs_store(self, path: str, fs_name: str, fs_ugi: str) -> None:
        """They meet in a folder that all processes see."""
        self._board = Folder(path)

    def set_http_store(self, ip: str, port: int, scope: str) -> None:
        """They meet at a server (`paddle.distributed.fleet.utils.http_server.KVServer`)."""
        self._board = Web(ip, port, scope)

    def init(self) -> None:
        """Begins. ValueError for a rank that is none, or without a place to meet."""
        if not 0 <= self._rank < self._size:
            raise ValueError(f"Gloo: there is no rank {self._rank} among {self._size}")
        if self._board is None:
            raise ValueError("Gloo: call set_hdfs_store or set_http_store first, which says where the processes meet")
        self._group = Exchange(self._board, self._prefix or "gloo", self._rank, self._size, self._seconds)

    def rank(self) -> int:
        """Which process this is."""
        return self._rank

    def size(self) -> int:
        """How many there are."""
        return self._size

    def _all(self, value: Any) -> list[Any]:
        if self._group is None:
            raise RuntimeError("Gloo: call init first")
        return self._group.all_gather(value)

    def barrier(self) -> None:
        """Waits for all. TimeoutError names who did not come."""
        self._all(None)

    def all_reduce(self, sendbuf: Sequence[float], mode: str = "sum") -> list[Any]:
        """The sum, maximum or minimum over the processes, element by element.

        Raises:
            ValueError: for another mode, or lists of different lengths.
        """
        if mode not in _MODES:
            raise ValueError(f"Gloo.all_reduce: mode must be sum, max or min, got {mode!r}")
        return [_MODES[mode](values) for values in zip(*self._all(list(sendbuf)), strict=True)]

    def all_gather(self, value: Any) -> list[Any]:
        """The value of every process, by rank."""
        return self._all(value)
