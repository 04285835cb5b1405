"""Gloo: collectives of small values on the host, among workers, servers or all processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..utils.http_server import KVServer
from .exchange import Board, Exchange, Folder, Web

__all__ = ["Gloo", "Role"]

_SECONDS = 3600.0
_WORLDS = ("worker", "server", "all")
_SUMS: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


class Role:
    """The roles of processes."""

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4


class Gloo:
    """Collectives of small values, through a shared folder or an HTTP server.

    Before :meth:`init` every call warns and returns its argument.
    """

    class RENDEZVOUS:
        """The kinds of rendezvous."""

        HDFS = 1
        FILE = 2
        HTTP = 3

    def __init__(self) -> None:
        self._is_initialized = False
        self._groups: dict[str, Exchange] = {}
        self._http_server: KVServer | None = None

    def init(
        self,
        rendezvous: int,
        role: int,
        role_id: int,
        worker_num: int,
        server_num: int,
        need_init_all: bool = False,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Joins the other processes.

        Args:
            rendezvous: one of `Gloo.RENDEZVOUS`. HDFS stands for a folder that is mounted (name and user "NULL").
            role: one of `Role`. role_id: the index among the processes of that role.
            worker_num, server_num: the numbers of processes.
            need_init_all: whether to create the group of workers and servers, too.
            kwargs: "dfs.path" (and "dfs.name", "dfs.ugi" for HDFS), or "http.host", "http.port" and
                "start_http_server" (True for the one that hosts it); "store.prefix" separates jobs.

        Raises:
            ValueError: for an unknown rendezvous, or missing kwargs.
        """
        kwargs = kwargs or {}
        prefix = str(kwargs.get("store.prefix", ""))
        self._role, self._role_id = role, role_id
        self._worker_num, self._server_num = worker_num, server_num
        board = self._board(rendezvous, kwargs, prefix)
        name = "worker" if role == Role.WORKER else "server"
        ranks = {"worker": worker_num, "server": server_num, "all": worker_num + server_num}
        place = {name: role_id, "all": role_id if role == Role.WORKER else worker_num + role_id}
        for group in [name] + (["all"] if need_init_all else []):
            self._groups[group] = Exchange(board, f"{prefix}.{group}", place[group], ranks[group], _SECONDS)
            self._groups[group].barrier()
        self._is_initialized = True

    def _board(self, rendezvous: int, kwargs: Mapping[str, Any], prefix: str) -> Board:
        def needed(*names: str) -> list[Any]:
            missing = [n for n in names if not kwargs.get(n)]
            if missing:
                raise ValueError(f"Gloo.init: kwargs must have {', '.join(missing)}")
            return [kwargs[n] for n in names]

        if rendezvous == Gloo.RENDEZVOUS.HDFS:
            name, _, path = needed("dfs.name", "dfs.ugi", "dfs.path")
            if name != "NULL" and not str(name).startswith("file://"):
                raise ValueError(f"Gloo.init: {name} is not mounted here; use a shared folder, or HTTP")
            return Folder(os.path.join(path, prefix or "job"))
        if rendezvous == Gloo.RENDEZVOUS.FILE:
            return Folder(os.path.join(needed("dfs.path")[0], prefix or "job"))
        if rendezvous == Gloo.RENDEZVOUS.HTTP:
            host, port = needed("http.host", "http.port")
            if kwargs.get("start_http_server"):
                self._http_server = KVServer(int(port))
                self._http_server.start()
            return Web(host, int(port), prefix or "job")
        raise ValueError(f"Gloo.init: rendezvous must be HDFS (1), FILE (2) or HTTP (3), got {rendezvous!r}")

    def _group(self, comm_world: str) -> Exchange | None:
        """The group by name; None before :meth:`init`."""
        if not self._is_initialized:
            warnings.warn("gloo is not initialized: this process is not connected to others", stacklevel=3)
            return None
        if comm_world not in _WORLDS:
            raise ValueError(f"comm_world must be one of {', '.join(_WORLDS)}, got {comm_world!r}")
        if comm_world not in self._groups:
            raise ValueError(f"this process is not in the group {comm_world!r}, it is in {sorted(self._groups)}")
        return self._groups[comm_world]

    def barrier(self, comm_world: str) -> None:
        """Waits until all processes of a group have called this."""
        group = self._group(comm_world)
        if group is not None:
            group.barrier()

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:  # noqa: A002
        """The sum, maximum or minimum (`mode`) over a group, element by element: an array like `input`."""
        group = self._group(comm_world)
        if group is None:
            return input
        if mode not in _SUMS:
            raise ValueError(f"mode must be sum, max or min, got {mode!r}")
        mine = np.asarray(input)
        every = [np.asarray(v, mine.dtype) for v in group.all_gather(mine.reshape(-1).tolist())]
        if any(v.shape != (mine.size,) for v in every):
            raise ValueError(f"all_reduce: ranks gave {[v.size for v in every]} elements")
        return np.asarray(_SUMS[mode](every, axis=0), mine.dtype).reshape(mine.shape)

    def all_gather(self, input: Any, comm_world: str = "worker") -> Any:  # noqa: A002
        """The JSON value of every rank of a group, as a list."""
        group = self._group(comm_world)
        return input if group is None else group.all_gather(input)
