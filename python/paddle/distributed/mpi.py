"""MPI as the way that the data of collectives takes, by mpi4py (the extra `mpi`): ``OAR_BACKEND=mpi`` under mpirun.

Ranks still meet in a rendezvous store and watch over each other as always; plans, their order and with it every bit of
a result are those of the other transports. A single group is made over MPI by ``new_group(backend="mpi")``.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from typing import Any

import paddle._core as _core

from .launch.ports import free

__all__: list[str] = []


def chosen() -> bool:
    """Whether the environment asks for MPI."""
    return os.environ.get("OAR_BACKEND", "").strip().lower() == "mpi"


class Messages:
    """The messages of a group, in order for each pair of members; see rust/py/dist/transport.rs.

    Args:
        number (int): the group's. members (list[int]): MPI's ranks by rank in the group.
    """

    name = "mpi"

    def __init__(self, mpi: Any, comm: Any, number: int, members: list[int]) -> None:
        self._mpi, self._comm, self._members = mpi, comm, members
        # Groups share a communicator: to make one of their own all members would have to wait within MPI.
        self._tag = number % (comm.Get_attr(mpi.TAG_UB) or 32767)
        self._sending: dict[int, Any] = {}
        self._receiving: dict[int, tuple[Any, bytearray]] = {}

    def send(self, to: int, message: bytes) -> None:
        """Begin to send; the message is kept until it has left."""
        request = self._comm.Isend([message, self._mpi.BYTE], self._members[to], self._tag)
        self._sending[to] = request, message

    def sent(self, to: int) -> bool:
        """Whether what `send` began has left."""
        if not self._sending[to][0].Test():
            return False
        del self._sending[to]
        return True

    def receive(self, of: int) -> bytearray | None:
        """The next message, None as long as it is not here whole."""
        if of not in self._receiving:
            status = self._mpi.Status()
            found = self._comm.Improbe(self._members[of], self._tag, status)
            if found is None:
                return None
            room = bytearray(status.Get_count(self._mpi.BYTE))
            self._receiving[of] = found.Irecv([room, self._mpi.BYTE]), room
        request, room = self._receiving[of]
        if not request.Test():
            return None
        del self._receiving[of]
        return room


@cache
def _begin() -> Any:
    """The function that makes the messages of a group; all processes of mpirun call this once."""
    try:
        from mpi4py import MPI
    except ImportError as e:
        raise ImportError("collectives over MPI need the package mpi4py (the extra `mpi`) and an MPI library") from e
    comm = MPI.COMM_WORLD.Dup()

    def make(number: int, members: list[int]) -> Messages:
        return Messages(MPI, comm, number, members)

    rank, size = comm.Get_rank(), comm.Get_size()
    for name, value in (("PADDLE_TRAINER_ID", rank), ("PADDLE_TRAINERS_NUM", size)):
        given = os.environ.setdefault(name, str(value))
        if int(given) != value:
            raise ValueError(f"collectives over MPI: {name} is {given}, where MPI says {value}: does mpirun start it?")
    _meet(comm, rank)
    return make


def _meet(comm: Any, rank: int) -> None:
    """Where ranks meet, in the environment: rank 0 hosts the store."""
    hosts = comm.allgather(socket.gethostname())
    here = "127.0.0.1" if len(set(hosts)) == 1 else socket.gethostbyname(hosts[rank])
    if not os.environ.get("PADDLE_TRAINER_ENDPOINTS"):
        ends = comm.allgather(f"{here}:{free(1)[0]}")
        os.environ["PADDLE_TRAINER_ENDPOINTS"], os.environ["PADDLE_CURRENT_ENDPOINT"] = ",".join(ends), ends[rank]
    if os.environ.get("PADDLE_MASTER"):
        return
    known = None
    if rank == 0:
        token = _core.dist.fresh_token()
        _meet.store = _core.dist.Store.host(f"{here}:0", "mpi", token)  # type: ignore[attr-defined]  # as long as the process
        known = _meet.store.address, token.hex()  # type: ignore[attr-defined]
    address, secret = comm.bcast(known)
    os.environ.update(PADDLE_MASTER=address, OAR_JOB_TOKEN=secret, OAR_JOB_NAME="mpi")


def begin() -> None:
    """Where the environment asks for MPI: find the others by it, and make all groups over it from now on."""
    if chosen():
        _core.dist.go_over(_begin())


def maker(backend: str | None) -> Any:
    """What makes a group's messages, by the name of a backend; None for what the process uses anyway."""
    return _begin() if backend == "mpi" else None
