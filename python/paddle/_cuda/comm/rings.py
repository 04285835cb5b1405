"""Collective operators on CUDA arrays by NCCL, through CuPy, for rings that use it.

The ranks of a ring rendezvous on the CPU (see `paddle.distributed.nccl`). The first collective, which all ranks run,
creates NCCL's communicator; all operations run in the order of the device's stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..call import Call, Declined

__all__ = ["LAUNCHERS", "RingExchange", "forget", "release", "serves", "use"]

# NCCL's types of combined elements, by numpy's names; elements that are only moved are sent as bytes.
NUMBERS = {
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
    "int32": "NCCL_INT32",
    "int64": "NCCL_INT64",
    "float16": "NCCL_FLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
}


class RingExchange(Protocol):
    """CPU communication among the ranks of a ring; ranks are numbered within the ring."""

    rank: int
    world: int

    def share(self, value: bytes | None) -> bytes:
        """Broadcast: the bytes of rank 0."""

    def send_count(self, count: int, to: int) -> None: ...
    def recv_count(self, of: int) -> int: ...
    def barrier(self) -> None: ...


class _Ring(NamedTuple):
    nccl: Any
    comm: Any
    stream: int
    exchange: RingExchange


_make_exchange: Callable[[int], RingExchange] | None = None
_all = False
_numbers: set[int] = set()
#: rings whose group object was destroyed; the ring may still exist under its number
_loose: dict[int, Callable[[int], bool]] = {}
_made: dict[int, _Ring] = {}


def use(make_exchange: Callable[[int], RingExchange] | None, ring: int | None = None) -> None:
    """Use NCCL for all rings, or for one; `make_exchange` returns that of a ring's ranks (None: no NCCL)."""
    global _make_exchange, _all
    _make_exchange = make_exchange
    if make_exchange is None:
        _all = False
        _numbers.clear()
        _made.clear()
        _loose.clear()
    elif ring is None:
        _all = True
    else:
        forget(ring)
        _numbers.add(ring)


def forget(ring: int) -> None:
    """Discard a ring: its number is reused by another group."""
    _numbers.discard(ring)
    _made.pop(ring, None)
    _loose.pop(ring, None)


def release(ring: int, lives: Callable[[int], bool]) -> None:
    """The ring's group object is destroyed; `lives` returns on the next use whether the ring exists."""
    if ring in _numbers:
        _loose[ring] = lives


def serves(ring: int) -> bool:
    """Whether collectives of CUDA arrays on this ring use NCCL."""
    for number, lives in list(_loose.items()):
        _loose.pop(number, None)
        if not lives(number):
            forget(number)
    return _all or ring in _numbers


def _ring(call: Call) -> _Ring:
    number = call.attrs.get("ring_id", 0)
    if not serves(number) or _make_exchange is None:
        raise Declined
    return ring_of(call.machine, number)


def ring_of(machine: Any, number: int) -> _Ring:
    """The communicator of a ring that NCCL serves, created by the first call, which all ranks make."""
    assert _make_exchange is not None
    found = _made.get(number)
    if found is None:
        nccl, exchange = machine.nccl(), _make_exchange(number)
        # NCCL's id: bytes, before CuPy 14 a tuple of signed bytes.
        mine = bytes(c % 256 for c in nccl.get_unique_id()) if exchange.rank == 0 else None
        comm = _communicator(nccl, exchange.world, exchange.share(mine), exchange.rank)
        found = _made[number] = _Ring(nccl, comm, machine.stream(), exchange)
    return found


def _communicator(nccl: Any, world: int, shared: bytes, rank: int) -> Any:
    try:
        return nccl.NcclCommunicator(world, shared, rank)
    except TypeError:
        return nccl.NcclCommunicator(world, tuple(c - 256 if c > 127 else c for c in shared), rank)


def _kind(ring: _Ring, array: Any) -> int:
    """NCCL's type number of the elements to combine."""
    if array.dtype.name not in NUMBERS:
        raise Declined
    return getattr(ring.nccl, NUMBERS[array.dtype.name])


def _member(call: Call, ring: _Ring, what: str) -> int:
    """A rank of the ring from an attribute; an invalid one is declined, so that the CPU kernel reports the error."""
    rank = call.attrs[what]
    if not 0 <= rank < ring.exchange.world:
        raise Declined
    return rank


def _whole(call: Call, ring: _Ring) -> None:
    """The attribute `nranks` determines the output shape; a mismatch is declined, so that the CPU reports the error."""
    if call.attrs["nranks"] != ring.exchange.world:
        raise Declined


def _in_place(call: Call, *, numbers: bool) -> tuple[_Ring, Any, int]:
    """The ring, `Out` initialized with `X`, and its address."""
    call.array("X")
    if numbers and call.dtype("Out") not in NUMBERS:
        raise Declined
    ring = _ring(call)
    out = call.old("Out")
    return ring, out, call.machine.address(out)


def _all_reduce(op: str) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        ring, out, at = _in_place(call, numbers=True)
        ring.comm.allReduce(at, at, out.size, _kind(ring, out), getattr(ring.nccl, op), ring.stream)
        return {"Out": out}

    return launch


def _reduce(op: str) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        ring, out, at = _in_place(call, numbers=True)
        root = _member(call, ring, "root_id")
        ring.comm.reduce(at, at, out.size, _kind(ring, out), getattr(ring.nccl, op), root, ring.stream)
        return {"Out": out}

    return launch


def _broadcast(call: Call) -> dict:
    ring, out, at = _in_place(call, numbers=False)
    ring.comm.broadcast(at, at, out.nbytes, ring.nccl.NCCL_INT8, _member(call, ring, "root"), ring.stream)
    return {"Out": out}


def _all_gather(call: Call) -> dict:
    x, ring = call.array("X"), _ring(call)
    _whole(call, ring)
    x, out = call.xp.ascontiguousarray(x), call.out("Out")
    address = call.machine.address
    ring.comm.allGather(address(x), address(out), x.nbytes, ring.nccl.NCCL_INT8, ring.stream)
    return {"Out": out}


def _reduce_scatter(call: Call) -> dict:
    x = call.array("X")
    if call.dtype("Out") not in NUMBERS:
        raise Declined
    ring = _ring(call)
    _whole(call, ring)
    x, out = call.xp.ascontiguousarray(x), call.out("Out")
    address = call.machine.address
    ring.comm.reduceScatter(address(x), address(out), out.size, _kind(ring, out), ring.nccl.NCCL_SUM, ring.stream)
    return {"Out": out}


def _scatter(call: Call) -> dict:
    x, ring = call.array("X"), _ring(call)
    _whole(call, ring)
    root, (nccl, comm, stream, exchange) = _member(call, ring, "root"), ring
    x, out = call.xp.ascontiguousarray(x), call.out("Out")
    at, size = call.machine.address(x), out.nbytes
    nccl.groupStart()
    if exchange.rank == root:
        for to in range(exchange.world):
            comm.send(at + to * size, size, nccl.NCCL_INT8, to, stream)
    comm.recv(call.machine.address(out), size, nccl.NCCL_INT8, root, stream)
    nccl.groupEnd()
    return {"Out": out}


def _send(call: Call) -> dict:
    """Sends the number of elements first, on the CPU: the receiver derives its leading size from it."""
    x, ring = call.array("X"), _ring(call)
    to, x = _member(call, ring, "peer"), call.xp.ascontiguousarray(x)
    ring.exchange.send_count(x.size, to)
    ring.comm.send(call.machine.address(x), x.nbytes, ring.nccl.NCCL_INT8, to, ring.stream)
    return {}


def _recv(call: Call) -> dict:
    ring, dtype = _ring(call), call.dtype("Out")
    of, shape = _member(call, ring, "peer"), list(call.attrs["out_shape"])
    count, rest = ring.exchange.recv_count(of), 1
    for size in shape[1:]:
        rest *= size
    if count and (rest <= 0 or count % rest):
        raise ValueError(f"operator recv_v2: rank {of} sends {count} elements, which do not fill rows of {shape[1:]}")
    shape[0] = count // rest if rest else max(shape[0], 0)
    out = call.empty(tuple(shape), dtype)
    ring.comm.recv(call.machine.address(out), out.nbytes, ring.nccl.NCCL_INT8, of, ring.stream)
    return {"Out": out}


def _barrier(call: Call) -> dict:
    ring, out, _ = _in_place(call, numbers=False)
    call.machine.wait()
    ring.exchange.barrier()
    return {"Out": out}


LAUNCHERS = {
    **{f"c_allreduce_{op}": _all_reduce(f"NCCL_{op.upper()}") for op in ("sum", "max", "min", "prod")},
    **{f"c_reduce_{op}": _reduce(f"NCCL_{op.upper()}") for op in ("sum", "max", "min", "prod")},
    "c_broadcast": _broadcast,
    "c_allgather": _all_gather,
    "c_reducescatter": _reduce_scatter,
    "c_scatter": _scatter,
    "send_v2": _send,
    "recv_v2": _recv,
    "barrier": _barrier,
}
