"""A socket pair between the training process and a worker: indices are sent to the worker, batches back.

Arrays are passed in a memfd, whose descriptor is sent over the socket: both processes map the memory; it has no name in
/dev/shm, does not count against its limit, and is freed by the kernel when both processes have released it or exited.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import socket
import struct
from collections.abc import Callable
from typing import Any

# length of the pickle, number of out-of-band buffers, 1 if they are in a memfd
_HEADER = struct.Struct("<QII")
_SIZE = struct.Struct("<Q")
_ALIGN = 64
# Below this many bytes, copying through the socket is cheaper than a memfd and two mappings.
_INLINE = 32 * 1024


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
        rest = memoryview(_HEADER.pack(len(data), 0, 0) + data)
        while rest:
            try:
                rest = rest[self._sock.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                readable, _, _ = select.select([self._sock], [self._sock], [])
                if readable:
                    read()

    def send(self, value: Any) -> None:
        """Sends `value`; blocks while the socket buffer is full."""
        buffers: list[memoryview] = []

        def keep(buffer: pickle.PickleBuffer) -> None:
            buffers.append(buffer.raw())

        data = pickle.dumps(value, protocol=5, buffer_callback=keep)
        sizes = [buffer.nbytes for buffer in buffers]
        shared = self._shared and sum(sizes) >= _INLINE
        head = _HEADER.pack(len(data), len(buffers), shared) + b"".join(map(_SIZE.pack, sizes)) + data
        if not shared:
            self._sock.sendall(head)
            for buffer in buffers:
                self._sock.sendall(buffer)
            return
        fd = _fill_memfd(buffers)
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
            length, count, shared = _HEADER.unpack(head)
            sizes = [size for (size,) in _SIZE.iter_unpack(self._exactly(count * _SIZE.size))]
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
        return pickle.loads(data, buffers=buffers)

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


def _fill_memfd(buffers: list[memoryview]) -> int:
    offsets, total = _offsets([buffer.nbytes for buffer in buffers])
    fd = os.memfd_create("paddle-batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, total)
        for buffer, offset in zip(buffers, offsets, strict=True):
            done = 0
            while done < buffer.nbytes:  # one write transfers at most 2 GiB
                done += os.pwrite(fd, buffer[done:], offset + done)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _map_memfd(fd: int, sizes: list[int]) -> list[Any]:
    offsets, total = _offsets(sizes)
    # Populated immediately: page faults per 4 KiB would cost more than the copy.
    memory = memoryview(mmap.mmap(fd, total, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)))
    return [memory[offset : offset + size] for offset, size in zip(offsets, sizes, strict=True)]
