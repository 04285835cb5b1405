"""A stand-in for cupy.cuda.nccl: ranks exchange memory through a folder (FAKE_NCCL)."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

available = True
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = range(4)
_COMBINE = (np.add, np.multiply, np.maximum, np.minimum)
NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64 = range(6, 9)
_TYPES = [np.dtype(t) for t in "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64".split()]
#: the functions that were called
calls: list[str] = []


#: the type of an id: bytes, before CuPy 14 a tuple of signed bytes
ID: type = bytes


def get_unique_id() -> bytes | tuple[int, ...]:
    made = os.urandom(128)
    return made if ID is bytes else tuple(np.frombuffer(made, "int8").tolist())


def groupStart() -> None:
    calls.append("groupStart")


def groupEnd() -> None:
    calls.append("groupEnd")


def _read(at: int, count: int, kind: int) -> bytes:
    return ctypes.string_at(at, count * _TYPES[kind].itemsize)


def _write(at: int, data: bytes | np.ndarray) -> None:
    data = bytes(data)
    ctypes.memmove(at, data, len(data))


class NcclCommunicator:
    def __init__(self, ndev: int, commId: bytes | tuple[int, ...], rank: int, config: Any = None) -> None:
        if type(commId) is not ID:  # Cython's argument types
            given = type(commId).__name__
            raise TypeError(f"Argument 'commId' has incorrect type (expected {ID.__name__}, got {given})")
        own = commId if isinstance(commId, bytes) else np.array(commId, "int8").tobytes()
        assert len(own) == 128 and 0 <= rank < ndev
        self._size, self._rank, self._counts = ndev, rank, {}
        self._folder = Path(os.environ["FAKE_NCCL"]) / own[:16].hex()
        self._folder.mkdir(exist_ok=True)

    def _put(self, name: str, data: bytes) -> None:
        part = self._folder / f"{name}.{self._rank}.part"
        part.write_bytes(data)
        part.rename(self._folder / name)

    def _get(self, name: str) -> bytes:
        until = time.monotonic() + 20
        while not (self._folder / name).exists():
            assert time.monotonic() < until, f"{name} was not sent"
            time.sleep(0.001)
        return (self._folder / name).read_bytes()

    def _next(self, what: str, side: str = "") -> str:
        self._counts[what + side] = self._counts.get(what + side, 0) + 1
        return f"{what}.{self._counts[what + side]}"

    def _all(self, data: bytes) -> list[bytes]:
        name = self._next("all")
        self._put(f"{name}.of{self._rank}", data)
        return [self._get(f"{name}.of{r}") for r in range(self._size)]

    def _combined(self, at: int, count: int, kind: int, op: int) -> np.ndarray:
        parts = [np.frombuffer(p, _TYPES[kind]) for p in self._all(_read(at, count, kind))]
        total = parts[0]
        for part in parts[1:]:
            total = _COMBINE[op](total, part)
        return total

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        calls.append("allReduce")
        _write(recvbuf, self._combined(sendbuf, count, datatype, op).tobytes())

    def reduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int) -> None:
        calls.append("reduce")
        total = self._combined(sendbuf, count, datatype, op)
        if self._rank == root:
            _write(recvbuf, total.tobytes())

    def broadcast(self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int) -> None:
        calls.append("broadcast")
        _write(recvbuff, self._all(_read(sendbuff, count, datatype))[root])

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        calls.append("allGather")
        _write(recvbuf, b"".join(self._all(_read(sendbuf, count, datatype))))

    def reduceScatter(self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int) -> None:
        calls.append("reduceScatter")
        total = self._combined(sendbuf, recvcount * self._size, datatype, op)
        _write(recvbuf, np.split(total, self._size)[self._rank].tobytes())

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        calls.append("send")
        self._put(self._next(f"from{self._rank}to{peer}", "sent"), _read(sendbuf, count, datatype))

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        calls.append("recv")
        data = self._get(self._next(f"from{peer}to{self._rank}", "received"))
        assert len(data) == count * _TYPES[datatype].itemsize
        _write(recvbuf, data)
