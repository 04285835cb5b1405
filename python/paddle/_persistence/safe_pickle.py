"""Unpickling of containers, numbers, strings and numpy arrays that is safe for arbitrary bytes.

numpy does not validate a pickled array: `ndarray(shape, "O", buffer)` and dtypes with invalid sizes or fields read
arbitrary addresses. Functions of this module therefore validate the arguments and create arrays and dtypes. The
unpickler is Python's: the one in C sets states without a check, and one flipped bit can make its memo gigabytes long.
The bytes of an array are one step of the unpickler, so large state dicts load as fast.
"""

from __future__ import annotations

import codecs
import io
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import numpy as np

from .array_pickler import LARGE

__all__: list[str] = []

#: kinds of dtypes without references to objects
_KINDS = "biufcSUMm"
#: time units of datetime64 and timedelta64
_TIME_UNITS = frozenset(("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"))


def _need(good: bool, what: str) -> None:
    if not good:
        raise pickle.UnpicklingError(what)


class _NdarrayType:
    """Placeholder of numpy.ndarray, the first argument of `_reconstruct`."""


def _check_text(array: Any) -> Any:
    """`array`, a numpy value; UnpicklingError for texts of numbers that are no characters, which Python cannot read."""
    if array.dtype.kind == "U" and array.dtype.itemsize:
        codes = np.frombuffer(array.tobytes(), array.dtype.byteorder.replace("|", "=") + "u4")
        _need(not codes.size or int(codes.max()) <= sys.maxunicode, "a text with numbers of no character")
    return array


def _dtype(spec: Any = None, align: Any = False, copy: Any = True) -> np.dtype:
    _need(isinstance(spec, str), f"a dtype of {spec!r:.80}")
    dtype = np.dtype(spec, copy=True)
    _need(dtype.kind in _KINDS + "O", f"a dtype of {spec!r:.80}")
    return dtype


def _reconstruct(kind: Any, shape: Any, code: Any) -> np.ndarray:
    _need(kind is _NdarrayType, "an array of another class than numpy.ndarray")
    return np.ndarray(0, "int8")


def _scalar(dtype: Any, data: Any = b"") -> Any:
    _need(isinstance(dtype, np.dtype) and dtype.kind in _KINDS, "a number of no numeric type")
    raw = data.encode("latin1") if isinstance(data, str) else data
    _need(isinstance(raw, bytes) and len(raw) == dtype.itemsize, "a number with bytes too few or too many")
    return _check_text(np.frombuffer(raw, dtype))[0] if raw else dtype.type()


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    _need(isinstance(dtype, np.dtype) and dtype.kind in _KINDS, "an array of no numeric type")
    return _check_text(np.frombuffer(data, dtype)).reshape(shape, order=order)


class _Latin1:
    """A long latin-1 text of protocol 2, kept as the bytes it encodes."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    good = encoding in ("latin1", "latin-1") and isinstance(text, (str, _Latin1))
    _need(good, f"bytes in the encoding {encoding!r:.80}")
    return text.data if isinstance(text, _Latin1) else text.encode("latin1")


#: the most parts of a key: hashing nested tuples that share their items takes exponential time
_KEY_PARTS = 10_000


def _check_keys(keys: Iterable[Any]) -> None:
    """UnpicklingError for keys, or elements of sets, with too many parts to hash."""
    left = _KEY_PARTS
    waiting = [k for k in keys if type(k) is tuple]
    while waiting:
        parts = waiting.pop()
        left -= len(parts)
        _need(left > 0, "a key of too many parts")
        waiting.extend(p for p in parts if type(p) is tuple)


def _container(kind: type) -> Any:
    """`kind` of another container; numbers and ranges are refused, whose result could be of any size."""

    def make(*args: Any) -> Any:
        _need(all(isinstance(a, (list, tuple, dict, set, bytes)) for a in args), f"a {kind.__name__} of no container")
        for items in args if kind in (set, frozenset) else ():
            _check_keys(items)
        for items in args if kind is dict and type(args[0]) in (list, tuple) else ():
            _check_keys(pair[0] for pair in items if isinstance(pair, (list, tuple)) and pair)
        return kind(*args)

    return make


def _bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    return bytearray(data if isinstance(data, bytes) else _encode(data, encoding))


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): _NdarrayType,
    ("_codecs", "encode"): _encode,
    **{(f"numpy.{c}.multiarray", "_reconstruct"): _reconstruct for c in ("core", "_core")},
    **{(f"numpy.{c}.multiarray", "scalar"): _scalar for c in ("core", "_core")},
    **{(f"numpy.{c}.numeric", "_frombuffer"): _frombuffer for c in ("core", "_core")},
    **{
        (module, kind.__name__): maker
        for module in ("builtins", "__builtin__")
        for kind, maker in (
            *((k, _container(k)) for k in (set, frozenset, tuple, list, dict, bytes)),
            (bytearray, _bytearray),
            (complex, complex),
            (slice, slice),
            (range, range),
        )
    },
    ("__builtin__", "xrange"): range,
}
_MAKERS = [maker for maker in _ALLOWED.values() if maker is not _NdarrayType]


def _check_array_state(state: Any) -> None:
    good = isinstance(state, tuple) and len(state) == 5
    _need(good, "the state of an array")
    _, shape, dtype, _, data = state
    _need(isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape), f"the shape {shape!r:.80}")
    _need(isinstance(dtype, np.dtype), "an array without dtype")
    _need(isinstance(data, list if dtype.kind == "O" else (bytes, bytearray, str)), "the data of an array")
    if dtype.kind == "O":
        size = 1
        for n in shape:
            size *= n
        _need(size == len(data), "the shape of an array")


def _set_dtype_state(dtype: np.dtype, state: Any) -> None:
    """Sets the byte order and the time unit of a dtype; its other state must agree with its name."""
    good = isinstance(state, tuple) and len(state) >= 7 and state[2:5] == (None, None, None)
    _need(good and state[1] in ("<", ">", "|", "="), "the state of a dtype")
    _need(state[5] in (-1, dtype.itemsize) and state[6] in (-1, dtype.alignment), "the size of a dtype")
    made: tuple[Any, ...] = (3, state[1], None, None, None, state[5], state[6], dtype.flags)
    if dtype.kind in "Mm":
        # numpy reads the time unit of these dtypes without a check that the state has one
        unit, number = np.datetime_data(dtype)
        if len(state) == 9:
            given = state[8]
            good = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], tuple) and len(given[1]) >= 2
            _need(good, "the time unit of a dtype")
            unit, number = given[1][:2]
        unit = unit.decode("latin1") if isinstance(unit, bytes) else unit
        _need(unit in _TIME_UNITS and type(number) is int and 0 < number < 2**31, "the time unit of a dtype")
        made = (4, *made[1:], ({}, (unit.encode(), number, 1, 1)))
    dtype.__setstate__(made)  # type: ignore[attr-defined]


_Unpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]


class _ArrayUnpickler(_Unpickler):
    """An unpickler of containers, numbers, strings and arrays that refuses all other objects."""

    dispatch = dict(_Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"the file refers to {module}.{name}, which is not part of a model's state: load runs no code of files"
            ) from None

    def _reduce(self) -> None:
        args, maker = self.stack.pop(), self.stack[-1]
        _need(any(maker is m for m in _MAKERS) and isinstance(args, tuple), "a call of no type")
        self.stack[-1] = maker(*args)

    def _build(self) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if type(made) is np.ndarray:
            _check_array_state(state)
            made.__setstate__(state)
            _check_text(made)
        elif isinstance(made, np.dtype):
            _set_dtype_state(made, state)
        else:
            # the attributes of an OrderedDict are ignored
            _need(type(made) is OrderedDict, f"the state of a {type(made).__name__}")

    def _binunicode(self) -> None:
        size = int.from_bytes(self.read(4), "little")
        if size >= LARGE and self.stack and self.stack[-1] is _encode:
            self.append(self._long_latin1(size))
        else:
            self.append(str(self.read(size), "utf-8", "surrogatepass"))

    def _long_latin1(self, size: int) -> _Latin1:
        """A text of `size` bytes, read in pieces, between which other threads run."""
        made, rest = io.BytesIO(), b""
        while size:
            piece = self.read(min(size, LARGE))
            _need(len(piece) == min(size, LARGE), "it ends too early")
            size -= len(piece)
            text, used = codecs.utf_8_decode(rest + piece, "strict", not size)
            made.write(text.encode("latin1"))
            rest = (rest + piece)[used:]
        return _Latin1(made.getvalue())

    def _bytearray8(self) -> None:
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    def _fill(self, items: list[Any]) -> None:
        _need(isinstance(self.stack[-1], dict), f"entries of a {type(self.stack[-1]).__name__}")
        _check_keys(items[::2])
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._fill([key, value])

    def _setitems(self) -> None:
        self._fill(self.pop_mark())

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._fill(items)

    def _additems(self) -> None:
        items = self.pop_mark()
        _need(type(self.stack[-1]) is set, f"elements of a {type(self.stack[-1]).__name__}")
        _check_keys(items)
        self.stack[-1].update(items)

    def _frozenset(self) -> None:
        items = self.pop_mark()
        _check_keys(items)
        self.append(frozenset(items))

    def _refuse(self) -> None:
        raise pickle.UnpicklingError("an instance of a class")

    dispatch[pickle.REDUCE[0]] = _reduce
    dispatch[pickle.NEWOBJ[0]] = _reduce
    dispatch[pickle.BUILD[0]] = _build
    dispatch[pickle.BYTEARRAY8[0]] = _bytearray8
    dispatch[pickle.BINUNICODE[0]] = _binunicode
    dispatch[pickle.SETITEM[0]] = _setitem
    dispatch[pickle.SETITEMS[0]] = _setitems
    dispatch[pickle.DICT[0]] = _dict
    dispatch[pickle.ADDITEMS[0]] = _additems
    dispatch[pickle.FROZENSET[0]] = _frozenset
    for _code in (pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4):
        dispatch[_code[0]] = _refuse


#: files up to this size are read at once: small reads from memory are faster
_SMALL_BYTES = 2**26


class _Bounded:
    """A file whose reads are bounded by its size, so that invalid lengths allocate no memory."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size
        self.readline = file.readline

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def load(file: BinaryIO) -> Any:
    """The object of a pickle of containers, numbers, strings and numpy arrays.

    Raises:
        pickle.UnpicklingError: for anything else in the file.
        EOFError: for an empty file.
    """
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    if not size:
        raise EOFError("the file is empty")
    reader: Any = io.BytesIO(file.read()) if size <= _SMALL_BYTES else _Bounded(file, size)
    try:
        return _ArrayUnpickler(reader, encoding="latin1").load()
    except (pickle.UnpicklingError, MemoryError, OSError):
        raise
    except EOFError as error:
        raise pickle.UnpicklingError("it ends too early") from error
    except Exception as error:  # a damaged pickle raises any exception: pops from empty stacks, unhashable keys, ...
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error


def loads(data: bytes) -> Any:
    """As :func:`load`, from bytes."""
    return load(io.BytesIO(data))


def load_file(path: str, finish: Callable[[Any], Any]) -> Any:
    """`finish` of the content of the file `path`; errors name the file."""
    with open(path, "rb") as file:
        try:
            state = load(file)
            try:
                return finish(state)
            except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
                raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error
        except (pickle.UnpicklingError, EOFError) as error:
            raise type(error)(f"{path} is no file that paddle.save has written, or is damaged: {error}") from error
