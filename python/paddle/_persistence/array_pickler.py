"""A pickler that writes large arrays to the file in pieces and releases the GIL between them.

The bytes equal those of `pickle.dump` with a numpy of 1.x: files name modules of `numpy.core`, which numpy 2 calls
`numpy._core` and reads under both names. `pickle.dump` itself copies a large array up to three times while it holds the
GIL.
"""

from __future__ import annotations

import codecs
import pickle
from collections.abc import Iterator
from struct import pack
from types import FunctionType
from typing import Any, BinaryIO

import numpy as np

__all__: list[str] = []

#: size in bytes of a piece; arrays of this size or more are written in pieces
LARGE = 1 << 20


def _is_large(value: Any) -> bool:
    if type(value) is not np.ndarray or value.nbytes < LARGE:
        return False
    return value.flags.c_contiguous and value.dtype.kind in "biufc" and value.dtype.isnative


def _holds_large(value: Any) -> bool:
    """Whether `value` is or contains a large array."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if _is_large(value):
            return True
        if isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return False


class _Bytes:
    """Placeholder of a large array's bytes in its pickled state."""

    def __init__(self, array: np.ndarray) -> None:
        self.flat = array.reshape(-1).view(np.uint8)

    def pieces(self) -> Iterator[np.ndarray]:
        return (self.flat[i : i + LARGE] for i in range(0, self.flat.size, LARGE))


class _Text(_Bytes):
    """Placeholder of the bytes as latin-1 text, which protocol 2 stores."""


#: whether numpy's own pickles name modules that numpy 1.x does not have
_RENAMED = int(np.__version__.split(".")[0]) >= 2

_Pickler: Any = pickle._Pickler  # type: ignore[attr-defined]


class _ArrayPickler(_Pickler):
    dispatch = dict(_Pickler.dispatch)

    def reducer_override(self, value: Any) -> Any:
        if not _is_large(value):
            return NotImplemented
        make, args, (version, _, dtype, fortran, _) = value[:0].__reduce__()
        return make, args, (version, value.shape, dtype, fortran, _Bytes(value))

    def _save_pieces(self, head: bytes, value: _Bytes, pieces: Iterator[Any]) -> None:
        self._write_large_bytes(head, b"")  # ends the frame: pieces are written outside of frames
        for piece in pieces:
            self._file_write(piece)
        self.memoize(value)

    def _save_bytes(self, value: _Bytes) -> None:
        size = value.flat.size
        if self.proto < 3:
            self.save_reduce(codecs.encode, (_Text(value.flat), "latin1"), obj=value)
        elif size > 0xFFFFFFFF and self.proto >= 4:
            self._save_pieces(pickle.BINBYTES8 + pack("<Q", size), value, value.pieces())
        else:
            self._save_pieces(pickle.BINBYTES + pack("<I", size), value, value.pieces())

    def _save_text(self, value: _Text) -> None:
        # a byte of 128 or more takes two bytes in UTF-8
        size = value.flat.size + sum(int(np.count_nonzero(piece & 128)) for piece in value.pieces())
        texts = (codecs.latin_1_decode(piece)[0].encode() for piece in value.pieces())  # type: ignore[arg-type]
        self._save_pieces(pickle.BINUNICODE + pack("<I", size), value, texts)

    def save_global(self, value: Any, name: str | None = None) -> None:
        module = getattr(value, "__module__", None) or ""
        if not module.startswith("numpy._core"):
            super().save_global(value, name)
            return
        module, name = module.replace("numpy._core", "numpy.core", 1), name or value.__qualname__
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(value)

    dispatch[FunctionType] = save_global
    dispatch[_Bytes] = _save_bytes
    dispatch[_Text] = _save_text


def dump(value: Any, file: BinaryIO, protocol: int) -> None:
    """As `pickle.dump`, for protocols 2 to 4."""
    if _RENAMED or _holds_large(value):
        _ArrayPickler(file, protocol).dump(value)
    else:
        pickle.dump(value, file, protocol=protocol)
