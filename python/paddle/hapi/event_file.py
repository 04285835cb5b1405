"""Event files of scalars in TensorBoard's format.

A file is a sequence of records: length (8 bytes, little endian), its checksum, the bytes, their checksum. A checksum is
a CRC-32C, rotated and offset so that checksums of checksums do not degenerate. Each record is an Event in protobuf
encoding: field 1 is the time (double), 2 the step (varint), 3 the version (string, in the first record), 5 a Summary,
whose field 1 are values with a tag (1) and a number (2, float).
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

import numpy as np

__all__: list[str] = []

_LOCK = threading.Lock()
_made = 0


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """A record with its checksums."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


class EventFile:
    """A new event file in a folder, which is created if needed.

    Args:
        folder (str): the folder for TensorBoard's ``--logdir``.

    Examples:
        >>> import os, tempfile
        >>> from paddle.hapi.event_file import EventFile
        >>> folder = tempfile.mkdtemp()
        >>> events = EventFile(folder)
        >>> events.add_scalar("train/loss", 0.5, step=1)
        >>> events.close()
        >>> os.listdir(folder)[0].startswith("events.out.tfevents.")
        True
    """

    def __init__(self, folder: str) -> None:
        global _made
        os.makedirs(folder, exist_ok=True)
        with _LOCK:
            number, _made = _made, _made + 1
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{number}"
        self.path = os.path.join(folder, name)
        self._file = open(self.path, "wb")
        self._write(_bytes_field(3, b"brain.Event:2"))

    def _write(self, content: bytes) -> None:
        self._file.write(record(struct.pack("<Bd", 1 << 3 | 1, time.time()) + content))

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Writes the value of `tag` at `step`."""
        with np.errstate(over="ignore"):  # values out of the range of float become infinite
            number = bytes([2 << 3 | 5]) + np.array(value, "<f4").tobytes()
        summary = _bytes_field(1, _bytes_field(1, tag.encode()) + number)
        self._write(b"\x10" + _varint(int(step)) + _bytes_field(5, summary))

    def flush(self) -> None:
        """Flushes the file, so that a running TensorBoard reads it."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
