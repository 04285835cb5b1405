"""Columns of Parquet, Arrow and Feather files, for data sets: pyarrow reads rows, the engine takes their buffers.

A slot is a column of numbers (a value for each row) or of lists. The engine refuses a row without a value, as in text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paddle._basics import numpy as np

__all__: list[str] = []

#: Suffixes of files with columns.
SUFFIXES = (".parquet", ".arrow", ".feather", ".ipc")
#: Most rows of a block: the next is unpacked while batches are made of it.
_ROWS = 1 << 14


def check_installed() -> None:
    """Raises RuntimeError without pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise RuntimeError("files with columns (Parquet, Arrow) need pyarrow: pip install oar-paddle[arrow]") from None


def _batches(path: str, content: bytes | None, names: list[str]) -> Iterator[Any]:
    """Record batches with the columns `names`; ValueError or OSError with the path for a damaged file."""
    import pyarrow as arrow

    with arrow.memory_map(path) if content is None else arrow.BufferReader(content) as file:
        try:
            yield from _read(path, file, names)
        except OSError as error:
            raise OSError(f"{path}: {error}") from None
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: {error}") from None


def _read(path: str, file: Any, names: list[str]) -> Iterator[Any]:
    import pyarrow as arrow

    parquet = file.read(4) == b"PAR1"
    file.seek(0)
    if parquet:
        from pyarrow.parquet import ParquetFile

        # `pre_buffer` would copy the pages, which are in memory already: 31 ms of processors, 27 without.
        opened = ParquetFile(file)
        _check(path, names, opened.schema_arrow.names)
        yield from opened.iter_batches(_ROWS, columns=names)
        return
    try:
        reader = arrow.ipc.open_file(file)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    except arrow.ArrowInvalid:
        file.seek(0)
        reader = arrow.ipc.open_stream(file)
        batches = iter(reader)
    _check(path, names, reader.schema.names)
    for batch in batches:
        found = batch.select(names)
        # Arrow aborts the process at the offsets of a damaged file; columns of Parquet are decoded, and valid.
        found.validate(full=True)
        yield found


def _check(path: str, names: list[str], known: list[str]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(known)}")
    several = [name for name in names if known.count(name) > 1]
    if several:
        raise ValueError(f"{path} has {known.count(several[0])} columns {several[0]!r}")


def _numbers(values: Any, real: bool) -> Any:
    """An Arrow array without nulls as int64 or float32; ArrowInvalid for a value that the type does not hold.

    Of uint64 all values are taken, modulo 2**64, as in text.
    """
    import pyarrow as arrow

    kind = arrow.float32() if real else arrow.int64()
    if arrow.types.is_boolean(values.type):
        values = values.cast(arrow.int8())
    if arrow.types.is_uint64(values.type) and not real:
        values = values.view(kind)
    # Digits that float32 lacks are rounded; a fraction is no integer.
    values = values if values.type == kind else values.cast(kind, safe=not real)
    return values.to_numpy(zero_copy_only=False)


def _column(column: Any, real: bool) -> tuple[Any, Any]:
    """The offsets of the rows (None: a value for each row) and the values."""
    import pyarrow as arrow

    kind = column.type
    if arrow.types.is_fixed_size_list(kind) and not column.null_count:
        values = column.flatten()
        if not values.null_count:
            return np.arange(len(column) + 1, dtype="int64") * kind.list_size, _numbers(values, real)
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        lengths = arrow.compute.fill_null(arrow.compute.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        values = column.flatten()
    else:
        if not column.null_count:
            return None, _numbers(column, real)
        lengths, values = column.is_valid().to_numpy(zero_copy_only=False), column.drop_null()
    if values.null_count:
        raise ValueError("a list holds a null")
    return np.concatenate([[0], np.cumsum(lengths)]).astype("int64"), _numbers(values, real)


def read(path: str, slots: Sequence[tuple[str, bool]], content: bytes | None = None) -> Iterator[list[tuple[Any, Any]]]:
    """The columns of a file, a group of rows at a time.

    Args:
        path: the file.
        slots: the columns' names, and whether they are float32 (otherwise int64).
        content: the bytes of a file that is not on this host.

    Yields a tuple for each slot: the offsets of the rows in the values (None: a value for each row), and the values.

    Raises:
        ValueError: for a missing column, and for values that are no numbers of the slot's type.
    """
    import pyarrow as arrow
    import pyarrow.compute

    for batch in _batches(path, content, [name for name, _ in slots]):
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            found = []
            for name, real in slots:
                try:
                    found.append(_column(part.column(name), real))
                except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, ValueError) as error:
                    want = "float32" if real else "int64"
                    raise ValueError(
                        f"{path}: column {name!r} of {part.column(name).type} does not give {want}: {error}"
                    ) from None
            yield found
