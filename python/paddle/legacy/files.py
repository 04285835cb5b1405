"""Files that Python 2 wrote: texts in any encoding, and pickles of byte strings."""

from __future__ import annotations

import builtins
import codecs
import csv
import io
import pickle
from typing import Any

__all__: list[str] = []


def open(  # noqa: A001 (it takes the name's place)
    file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """As the builtin. A text file without `encoding` is UTF-8, and bytes that are none survive reading and writing
    (surrogateescape); the mode ``U`` has no effect."""
    mode = mode.replace("U", "") or "r"
    if mode in ("+", "b", "t", "b+", "+b"):
        mode = f"r{mode}"
    if "b" not in mode and encoding is None:
        encoding, errors = "utf-8", errors or "surrogateescape"
    return builtins.open(file, mode, buffering, encoding, errors, *args, **kwargs)


def codecs_open(
    filename: Any, mode: str = "r", encoding: Any = None, errors: str = "strict", buffering: int = -1
) -> Any:
    """As codecs.open; the mode ``U`` has no effect."""
    return codecs.open(filename, mode.replace("U", "") or "r", encoding, errors, buffering)


def _binary(file: Any) -> Any:
    """The bytes of a file that was opened as text."""
    return getattr(file, "buffer", file) if isinstance(file, io.TextIOBase) else file


def load_pickle(file: Any, **options: Any) -> Any:
    """As pickle.load. Byte strings of Python 2 that are not ASCII are decoded as latin-1; a text file is accepted."""
    file = _binary(file)
    if "encoding" in options or not hasattr(file, "seek"):
        return pickle.load(file, **options)
    start = file.tell()
    try:
        return pickle.load(file, **options)
    except UnicodeDecodeError:
        file.seek(start)
        return pickle.load(file, encoding="latin1", **options)


def loads_pickle(data: Any, **options: Any) -> Any:
    """As pickle.loads, with `load_pickle`'s treatment of byte strings."""
    data = data.encode("latin1") if isinstance(data, str) else data
    return load_pickle(io.BytesIO(data), **options)


def dump_pickle(obj: Any, file: Any, protocol: Any = None, **options: Any) -> None:
    """As pickle.dump; a text file is accepted."""
    pickle.dump(obj, _binary(file), protocol, **options)


def _lines(file: Any) -> Any:
    """The lines of a file, as texts."""
    if isinstance(file, (io.BufferedIOBase, io.RawIOBase)):
        return io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="")  # type: ignore[type-var]
    return file


def csv_reader(csvfile: Any, *args: Any, **kwargs: Any) -> Any:
    """As csv.reader; a binary file is accepted."""
    return csv.reader(_lines(csvfile), *args, **kwargs)


def csv_dict_reader(f: Any, *args: Any, **kwargs: Any) -> Any:
    """As csv.DictReader; a binary file is accepted."""
    return csv.DictReader(_lines(f), *args, **kwargs)
