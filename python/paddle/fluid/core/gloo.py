"""fluid.core.Gloo: collectives of small values through a shared folder or an HTTP server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddle.distributed.fleet.base.exchange import Board, Exchange, Folder, Web

__all__ = ["Gloo"]

#: mode -> reduction of the ranks' elements
_MODES: dict[str, Any] = {"sum": sum, "max": max, "min": min}


class Gloo:
    """A group of processes: the setters set its rank, size and rendezvous, then :meth:`init` connects.

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
        """Sets the rank of this process."""
        self._rank = rank

    def set_size(self, size: int) -> None:
        """Sets the number of processes."""
        self._size = size

    def set_prefix(self, prefix: str) -> None:
        """Separates this group from others at the same rendezvous."""
        self._prefix = prefix

    def set_iface(self, iface: str) -> None:
        """Does nothing: no network interface is used."""

    def set_timeout_seconds(self, init_seconds: int, run_seconds: int) -> None:
        """Sets the timeout: the longer of both."""
        self._seconds = float(max(init_seconds, run_seconds))

    def set_hdfs_store(self, path: str, fs_name: str, fs_ugi: str) -> None:
        """Sets the rendezvous to a shared folder."""
        self._board = Folder(path)

    def set_http_store(self, ip: str, port: int, scope: str) -> None:
        """Sets the rendezvous to a server (`paddle.distributed.fleet.utils.http_server.KVServer`)."""
        self._board = Web(ip, port, scope)

    def init(self) -> None:
        """Connects the group. ValueError for an invalid rank, or without a rendezvous."""
        if not 0 <= self._rank < self._size:
            raise ValueError(f"Gloo: there is no rank {self._rank} among {self._size}")
        if self._board is None:
            raise ValueError("Gloo: call set_hdfs_store or set_http_store first, which set the rendezvous")
        self._group = Exchange(self._board, self._prefix or "gloo", self._rank, self._size, self._seconds)

    def rank(self) -> int:
        """The rank of this process."""
        return self._rank

    def size(self) -> int:
        """The number of processes."""
        return self._size

    def _all(self, value: Any) -> list[Any]:
        if self._group is None:
            raise RuntimeError("Gloo: call init first")
        return self._group.all_gather(value)

    def barrier(self) -> None:
        """Waits for all processes. TimeoutError names the missing ranks."""
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
