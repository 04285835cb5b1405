"""Columns of a Parquet, Arrow or Feather file as MultiSlot text: the pipe command of data sets with such files.

    python columns.py SLOT... < FILE

Reads from the standard input and writes a line for each row: for each slot the number of its values and the values. A
slot is a column of numbers (one value) or of lists; rows without a value are empty lists. pyarrow does the conversion,
a group of rows at a time. The module is a program of its own: it does not import paddle.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

#: Suffixes of files with columns.
SUFFIXES = (".parquet", ".arrow", ".feather", ".ipc")
_ROWS = 1 << 15


def _batches(file: Any, names: list[str]) -> Iterator[Any]:
    import pyarrow as arrow

    if file.read(4) == b"PAR1":
        from pyarrow import parquet

        file.seek(0)
        opened = parquet.ParquetFile(file)
        known = opened.schema_arrow.names
        _check(names, known)
        yield from opened.iter_batches(_ROWS, columns=names)
        return
    file.seek(0)
    try:
        reader = arrow.ipc.open_file(file)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    except arrow.ArrowInvalid:
        file.seek(0)
        reader = arrow.ipc.open_stream(file)
        batches = iter(reader)
    _check(names, reader.schema.names)
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


def _check(names: list[str], known: list[str]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        raise SystemExit(f"the file has no column {missing[0]!r}; it has {', '.join(known)}")


def _texts(column: Any) -> Any:
    """For each row the number of values and the values."""
    import pyarrow as arrow
    from pyarrow import compute

    kind = column.type
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        column = column.cast(arrow.list_(kind.value_type))
        values = column.flatten().cast(arrow.string())
        lengths = compute.fill_null(compute.list_value_length(column), 0)
        ends = compute.cumulative_sum(lengths)
        offsets = arrow.concat_arrays([arrow.array([0], arrow.int32()), ends.cast(arrow.int32())])
        joined = compute.binary_join(arrow.ListArray.from_arrays(offsets, values), " ")
        counts = lengths.cast(arrow.string())
        empty = compute.equal(lengths, 0)
        return compute.if_else(empty, "0", compute.binary_join_element_wise(counts, joined, " "))
    if arrow.types.is_boolean(kind):
        column = column.cast(arrow.int8())
    text = compute.binary_join_element_wise("1", column.cast(arrow.string()), " ")
    return compute.fill_null(text, "0")


def convert(file: Any, names: list[str], out: Any) -> None:
    """Writes the rows of a file as lines.

    Raises:
        SystemExit: for a missing column.
    """
    import pyarrow as arrow
    from pyarrow import compute

    for batch in _batches(file, names):
        if not batch.num_rows:
            continue
        lines = compute.binary_join_element_wise(*(_texts(batch.column(name)) for name in names), " ")
        offsets = arrow.array([0, len(lines)], arrow.int32())
        whole = compute.binary_join(arrow.ListArray.from_arrays(offsets, lines), "\n")
        out.write(memoryview(whole.buffers()[2])[: len(whole.buffers()[2])])
        out.write(b"\n")


def pipe_command(names: list[str]) -> str:
    """The shell command that converts a file to lines with these slots."""
    import shlex

    return shlex.join([sys.executable, "-I", __file__, *names])


def main() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise SystemExit("files with columns need pyarrow: pip install oar-paddle[arrow]") from None
    file: Any = sys.stdin.buffer
    if not file.seekable():
        import io

        file = io.BytesIO(file.read())
    convert(file, sys.argv[1:], sys.stdout.buffer)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
