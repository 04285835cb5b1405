"""numpy functions that newer versions removed, or whose arguments they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__: list[str] = []

NINF, PZERO, NZERO = -np.inf, 0.0, -0.0
#: the types of each kind
sctypes = {
    "int": [np.int8, np.int16, np.int32, np.int64],
    "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
    "float": [np.float16, np.float32, np.float64, np.longdouble],
    "complex": [np.complex64, np.complex128, np.clongdouble],
    "others": [bool, object, bytes, str, np.void],
}
_TWO = int(np.__version__.split(".")[0]) >= 2


def _made(make: Any, value: Any, dtype: Any, options: dict[str, Any]) -> np.ndarray:
    try:
        return make(value, dtype, **options)
    except OverflowError:
        # numbers outside of an integer type wrap around
        return make(value, **options).astype(dtype)
    except ValueError as error:
        if "inhomogeneous" not in str(error) or dtype not in (None, object):
            raise
    return _ragged(value)


def _ragged(value: Any) -> np.ndarray:
    """An array of the items of a ragged sequence, as objects."""
    try:
        return np.array(value, dtype=object)
    except ValueError:  # arrays whose first sizes agree and others do not
        array = np.empty(len(value), dtype=object)
        for i, item in enumerate(value):
            array[i] = item
        return array


def array(object: Any, dtype: Any = None, **options: Any) -> np.ndarray:  # noqa: A002 (numpy's name)
    """As numpy.array before 1.24: a ragged sequence gives an array of objects; ``copy=False`` copies where needed."""
    if _TWO and options.get("copy") is False:
        options["copy"] = None
    return _made(np.array, object, dtype, options)


def asarray(a: Any, dtype: Any = None, order: Any = None) -> np.ndarray:
    """As numpy.asarray before 1.24: a ragged sequence gives an array of objects."""
    return _made(np.asarray, a, dtype, {} if order is None else {"order": order})


def load(
    file: Any, mmap_mode: Any = None, allow_pickle: bool = True, fix_imports: bool = True, encoding: str = "ASCII"
):
    """As numpy.load before 1.16.3: arrays of objects are read; those of Python 2, too."""
    options: dict[str, Any] = {"mmap_mode": mmap_mode, "allow_pickle": allow_pickle, "fix_imports": fix_imports}
    try:
        return np.load(file, encoding=encoding, **options)  # type: ignore[arg-type]
    except (UnicodeError, UnicodeDecodeError):
        if hasattr(file, "seek"):
            file.seek(0)
        return np.load(file, encoding="latin1", **options)


def fromstring(string: Any, dtype: Any = float, count: int = -1, sep: str = "") -> np.ndarray:
    """As numpy.fromstring before 2.3: without `sep` the bytes are the elements."""
    if sep:
        return np.fromstring(string, dtype, count, sep=sep)
    data = string.encode("latin1") if isinstance(string, str) else string
    return np.frombuffer(data, dtype, count).copy()


def asfarray(a: Any, dtype: Any = np.float64) -> np.ndarray:
    """An array of floats."""
    kind = np.dtype(dtype)
    return np.asarray(a, kind if kind.kind in "fc" else np.float64)


def asscalar(a: Any) -> Any:
    """The element of an array of one element."""
    return a.item()


def msort(a: Any) -> np.ndarray:
    """A copy, sorted along dimension 0."""
    return np.sort(a, axis=0)


def issctype(rep: Any) -> bool:
    """Whether `rep` is the type, or a dtype, of numpy's scalars."""
    return obj2sctype(rep) is not None if isinstance(rep, (type, np.dtype)) else False


def obj2sctype(rep: Any, default: Any = None) -> Any:
    """The scalar type of an object."""
    try:
        return np.dtype(rep if isinstance(rep, (type, np.dtype, str)) else type(rep)).type
    except TypeError:
        return default


def find_common_type(array_types: Sequence[Any], scalar_types: Sequence[Any]) -> np.dtype:
    """The type that all arrays convert to; scalars count only where they are of a higher kind."""
    arrays, scalars = [np.dtype(t) for t in array_types], [np.dtype(t) for t in scalar_types]
    if not arrays or not scalars:
        return np.result_type(*arrays, *scalars)
    kinds = "buifcSUVO"
    array, scalar = np.result_type(*arrays), np.result_type(*scalars)
    return scalar if kinds.index(scalar.kind) > kinds.index(array.kind) else array


class _Cast(dict):
    """``cast[dtype](x)``."""

    def __missing__(self, kind: Any) -> Any:
        return lambda x: np.asarray(x).astype(kind)


cast = _Cast()


def random_integers(low: int, high: int | None = None, size: Any = None) -> Any:
    """Integers from `low` to `high`, inclusive; from 1 to `low` where `high` is None."""
    return np.random.randint(1, low + 1, size) if high is None else np.random.randint(low, high + 1, size)
