"""Event files in TensorBoard's format: scalars, histograms, images, Programs as graphs.

A file is a sequence of records: length (8 bytes, little endian), its checksum, the bytes, their checksum. A checksum is
a CRC-32C, rotated and offset so that checksums of checksums do not degenerate. Each record is an Event in protobuf
encoding: field 1 is the time (double), 2 the step (varint), 3 the version (string, in the first record), 5 a Summary,
whose field 1 are values with a tag (1) and a number (2, float), an image (4) or a histogram (5); or 4, a graph.
"""

from __future__ import annotations

import functools
import os
import socket
import struct
import threading
import time
from typing import Any

import numpy as np

from paddle._basics import png
from paddle._basics.wire import bytes_field, varint

__all__: list[str] = []

_LOCK = threading.Lock()
_made = 0


#: Bytes of which the checksum is computed at once.
_CHUNK = 1024


@functools.cache
def _tables() -> np.ndarray:
    """For each place (from the end) in a chunk and each byte its part of the remainder."""
    table = np.arange(256, dtype="uint32")
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ np.uint32(0x82F63B78), table >> np.uint32(1))
    tables = np.empty((_CHUNK, 256), "uint32")
    tables[0] = table
    for k in range(1, _CHUNK):
        tables[k] = tables[k - 1] >> np.uint32(8) ^ table[tables[k - 1] & np.uint32(0xFF)]
    return tables


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) checksum.

    Examples:
        >>> from paddle.hapi.event_file import crc32c
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    tables = _tables()
    state = 0xFFFFFFFF
    for start in range(0, len(data), _CHUNK):
        chunk = np.frombuffer(data[start : start + _CHUNK], "uint8").copy()
        n = len(chunk)
        # The state is added to the first four bytes; what a shorter chunk does not take is shifted.
        first = min(n, 4)
        chunk[:first] ^= np.frombuffer(state.to_bytes(4, "little"), "uint8")[:first]
        state = int(np.bitwise_xor.reduce(tables[np.arange(n - 1, -1, -1), chunk])) ^ state >> 8 * first
    return state ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """A record with its checksums."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _nodes(block: Any) -> list[bytes]:
    """Nodes (name, type, inputs) of a block: its operators, and the variables that none of them computes."""
    producers: dict[str, str] = {}
    nodes = []

    def node(name: str, kind: str, inputs: list[str]) -> None:
        parts = [name, kind, *dict.fromkeys(inputs)]
        nodes.append(b"".join(bytes_field(min(k, 3), part.encode()) for k, part in enumerate(parts, 1)))

    def source(variable: str) -> str:
        if variable not in producers:
            producers[variable] = variable.replace("@", ".")
            found = block.vars.get(variable)
            node(producers[variable], "Parameter" if found is not None and found.persistable else "Placeholder", [])
        return producers[variable]

    for i, op in enumerate(block.ops):
        name = f"{op.type}_{i}"
        node(name, op.type, [source(variable) for variable in op.input_arg_names])
        producers.update(dict.fromkeys(op.output_arg_names, name))
    return nodes


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
        self._write(bytes_field(3, b"brain.Event:2"))

    def _write(self, content: bytes) -> None:
        self._file.write(record(struct.pack("<Bd", 1 << 3 | 1, time.time()) + content))

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Writes the value of `tag` at `step`."""
        with np.errstate(over="ignore"):  # values out of the range of float become infinite
            number = bytes([2 << 3 | 5]) + np.array(value, "<f4").tobytes()
        summary = bytes_field(1, bytes_field(1, tag.encode()) + number)
        self._write(b"\x10" + varint(int(step)) + bytes_field(5, summary))

    def _add(self, tag: str, field: bytes, step: int) -> None:
        summary = bytes_field(1, bytes_field(1, tag.encode()) + field)
        self._write(b"\x10" + varint(int(step)) + bytes_field(5, summary))

    def add_histogram(self, tag: str, values: np.ndarray, step: int, buckets: int = 30) -> None:
        """Writes the distribution of values; NaN and infinity are left out."""
        values = np.asarray(values, "float64").ravel()
        values = values[np.isfinite(values)]
        if not values.size:
            return
        counts, edges = np.histogram(values, buckets)
        numbers = (values.min(), values.max(), values.size, values.sum(), (values * values).sum())
        field = b"".join(struct.pack("<Bd", k << 3 | 1, number) for k, number in enumerate(numbers, 1))
        field += bytes_field(6, edges[1:].astype("<f8").tobytes()) + bytes_field(7, counts.astype("<f8").tobytes())
        self._add(tag, bytes_field(5, field), step)

    def add_image(self, tag: str, image: np.ndarray, step: int) -> None:
        """Writes an image: [height, width] or [height, width, channels] of bytes, or of floats in [0, 1].

        Raises:
            ValueError: for another shape.
        """
        image = png.as_bytes(np.asarray(image))
        encoded = png.encode(image)
        channels = image.shape[2] if image.ndim == 3 else 1
        sizes = zip((1, 2, 3), (*image.shape[:2], channels), strict=True)
        field = b"".join(bytes([k << 3]) + varint(n) for k, n in sizes) + bytes_field(4, encoded)
        self._add(tag, bytes_field(4, field), step)

    def add_graph(self, program: Any) -> None:
        """Writes the operators of a Program's first block as a graph."""
        nodes = b"".join(bytes_field(1, node) for node in _nodes(program.global_block()))
        self._write(bytes_field(4, nodes + bytes_field(4, b"\x08\x16")))

    def flush(self) -> None:
        """Flushes the file, so that a running TensorBoard reads it."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
