"""A socket pair between the training process and a worker: indices are sent to the worker, batches back.

Arrays are passed in a memfd, whose descriptor is sent over the socket: both processes map the memory; it has no name in
/dev/shm, does not count against its limit, and is freed by the kernel when both processes have released it or exited.
"""

from __future__ import annotations

import contextlib
import copyreg
import mmap
import os
import pickle
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle.io.collate import Stacked

# length of the pickle, number of buffers, 1 if they are in a memfd, number of those that the pickle reads out of band
_HEADER = struct.Struct("<QIII")
_SIZE = struct.Struct("<Q")
_ALIGN = 64
# Below this many bytes, copying through the socket is cheaper than a memfd and two mappings.
_INLINE = 32 * 1024
# Views in one write: IOV_MAX of Linux.
_VECTOR = 1024


#: The memory of the object that this thread sends or receives: for each `Stacked` the views of its items, or its bytes.
_moving = threading.local()


def _reduce_stacked(value: Stacked) -> tuple:
    first = value.items[0]
    _moving.parts.append([memoryview(item).cast("B") if item.size else memoryview(b"") for item in value.items])  # type: ignore[arg-type]
    return _stacked, (len(_moving.parts) - 1, (len(value.items), *first.shape), first.dtype.str)


def _stacked(index: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A `Stacked` that has arrived: one array."""
    return np.frombuffer(_moving.parts[index], dtype).reshape(shape)


copyreg.pickle(Stacked, _reduce_stacked)  # type: ignore[type-var]


class Channel:
    """Sends and receives Python objects; arrays in them are passed out of band."""

    def __init__(self, sock: socket.socket, use_shared_memory: bool = True) -> None:
        self._sock = sock
        self._shared = use_shared_memory and hasattr(os, "memfd_create")

    @classmethod
    def pair(cls, use_shared_memory: bool) -> tuple[Channel, Channel]:
        """The two ends: the first for this process, the second for a worker."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(here, use_shared_memory), cls(there, use_shared_memory)

    def fileno(self) -> int:
        """The file descriptor of the socket, for a selector."""
        return self._sock.fileno()

    def close(self) -> None:
        """Shuts the connection down: the other end reads EOF even if a forked process holds a copy of this socket."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def drop(self) -> None:
        """Closes this process's copy of an end that another process uses."""
        self._sock.close()

    def send_while_reading(self, value: Any, read: Callable[[], None]) -> None:
        """Sends `value` in band, calling `read` whenever the other end is sending, too.

        With plain `send`, both ends could block until the other reads.
        """
        data = pickle.dumps(value, protocol=5)
        rest = memoryview(_HEADER.pack(len(data), 0, 0, 0) + data)
        while rest:
            try:
                rest = rest[self._sock.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                readable, _, _ = select.select([self._sock], [self._sock], [])
                if readable:
                    read()

    def send(self, value: Any) -> None:
        """Sends `value`; blocks while the socket buffer is full."""
        buffers: list[list[memoryview]] = []

        def keep(buffer: pickle.PickleBuffer) -> None:
            buffers.append([buffer.raw()])

        _moving.parts = []
        data = pickle.dumps(value, protocol=5, buffer_callback=keep)
        count = len(buffers)
        buffers += _moving.parts
        sizes = [sum(view.nbytes for view in views) for views in buffers]
        shared = self._shared and sum(sizes) >= _INLINE
        head = _HEADER.pack(len(data), len(buffers), shared, count) + b"".join(map(_SIZE.pack, sizes)) + data
        if not shared:
            self._sock.sendall(head)
            for views in buffers:
                for view in views:
                    self._sock.sendall(view)
            return
        fd = _fill_memfd(buffers, sizes)
        try:
            sent = socket.send_fds(self._sock, [head], [fd])
        finally:
            os.close(fd)
        self._sock.sendall(memoryview(head)[sent:])

    def receive(self) -> Any:
        """The next object; EOFError if the other end is closed or its process has exited."""
        head, fds, _, _ = socket.recv_fds(self._sock, _HEADER.size, 1)
        try:
            head += self._exactly(_HEADER.size - len(head))
            length, total, shared, count = _HEADER.unpack(head)
            sizes = [size for (size,) in _SIZE.iter_unpack(self._exactly(total * _SIZE.size))]
            data = self._exactly(length)
            if shared:
                if not fds:
                    raise OSError("the worker's memory did not arrive: too many open files?")
                buffers: list[Any] = _map_memfd(fds[0], sizes)
            else:
                buffers = [self._exactly(size) for size in sizes]
        finally:
            for fd in fds:
                os.close(fd)
        _moving.parts = buffers[count:]
        return pickle.loads(data, buffers=buffers[:count])

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        done = 0
        while done < size:
            got = self._sock.recv_into(view[done:])
            if got == 0:
                raise EOFError
            done += got
        return data


def _offsets(sizes: list[int]) -> tuple[list[int], int]:
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // _ALIGN) * _ALIGN
    return offsets, end


def _fill_memfd(buffers: list[list[memoryview]], sizes: list[int]) -> int:
    offsets, total = _offsets(sizes)
    fd = os.memfd_create("paddle-batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, total)
        for views, offset in zip(buffers, offsets, strict=True):
            for start in range(0, len(views), _VECTOR):
                offset = _write_all(fd, views[start : start + _VECTOR], offset)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _write_all(fd: int, views: list[memoryview], offset: int) -> int:
    """Writes the views one after the other; the offset behind them. One write transfers at most 2 GiB."""
    while views:
        done = os.pwritev(fd, views, offset)
        offset += done
        while views and done >= views[0].nbytes:
            done -= views[0].nbytes
            views = views[1:]
        if views:
            views = [views[0][done:], *views[1:]]
    return offset


def _map_memfd(fd: int, sizes: list[int]) -> list[Any]:
    offsets, total = _offsets(sizes)
    # Populated immediately: page faults per 4 KiB would cost more than the copy.
    memory = memoryview(mmap.mmap(fd, total, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)))
    return [memory[offset : offset + size] for offset, size in zip(offsets, sizes, strict=True)]
