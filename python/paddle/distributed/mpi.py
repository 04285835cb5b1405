"""The MPI transport of collectives, by mpi4py (the extra `mpi`): ``OAR_BACKEND=mpi`` under mpirun.

The rendezvous store and failure detection are the usual ones; the order of operations, and with it every bit of a
result, is that of the other transports. ``new_group(backend="mpi")`` creates a single group over MPI.
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
    """Whether the environment selects MPI."""
    return os.environ.get("OAR_BACKEND", "").strip().lower() == "mpi"


class Messages:
    """The messages of a group, in order for each pair of members; see rust/py/dist/transport.rs.

    Args:
        number (int): the group's id. members (list[int]): MPI's ranks by rank in the group.
    """

    name = "mpi"

    def __init__(self, mpi: Any, comm: Any, number: int, members: list[int]) -> None:
        self._mpi, self._comm, self._members = mpi, comm, members
        # Groups share a communicator: to create one for a group, its members would have to synchronize within MPI.
        self._tag = number % (comm.Get_attr(mpi.TAG_UB) or 32767)
        self._sending: dict[int, Any] = {}
        self._receiving: dict[int, tuple[Any, bytearray]] = {}

    def send(self, to: int, message: bytes) -> None:
        """Starts sending; the message is kept until it is sent."""
        request = self._comm.Isend([message, self._mpi.BYTE], self._members[to], self._tag)
        self._sending[to] = request, message

    def sent(self, to: int) -> bool:
        """Whether the message of `send` is sent."""
        if not self._sending[to][0].Test():
            return False
        del self._sending[to]
        return True

    def receive(self, of: int) -> bytearray | None:
        """The next message; None until it is complete."""
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
    """The constructor of a group's messages; all processes of mpirun call this once."""
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
            raise ValueError(
                f"collectives over MPI: {name} is {given}, but MPI has {value}: is the process started by mpirun?"
            )
    _set_rendezvous(comm, rank)
    return make


def _set_rendezvous(comm: Any, rank: int) -> None:
    """Sets the rendezvous in the environment: rank 0 hosts the store."""
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
        _set_rendezvous.store = _core.dist.Store.host(f"{here}:0", "mpi", token)  # type: ignore[attr-defined]  # as long as the process
        known = _set_rendezvous.store.address, token.hex()  # type: ignore[attr-defined]
    address, secret = comm.bcast(known)
    os.environ.update(PADDLE_MASTER=address, OAR_JOB_TOKEN=secret, OAR_JOB_NAME="mpi")


def begin() -> None:
    """If the environment selects MPI: joins by it, and makes it the transport of all later groups."""
    if chosen():
        _core.dist.go_over(_begin())


def maker(backend: str | None) -> Any:
    """The constructor of a group's messages for a backend; None for the default transport."""
    return _begin() if backend == "mpi" else None
