"""Data sets of Parquet, Arrow and Feather files give what the same rows as text give."""

from __future__ import annotations

import io

import numpy as np
import paddle
import pytest
from paddle.distributed.fleet.dataset import columns

arrow = pytest.importorskip("pyarrow")

ROWS = [([1, 2], [0.5, 1.5], 7), ([3], [2.5, -1.0], 8), ([4, 5, 6], [1e-3, 2e10], 9)] * 40


def write(path, rows):
    from pyarrow import feather, parquet

    ids, dense, label = (list(column) for column in zip(*rows, strict=True))
    table = arrow.table(
        {
            "label": arrow.array(label, arrow.int32()),
            "ids": arrow.array(ids, arrow.list_(arrow.int64())),
            "other": arrow.array(["x"] * len(rows)),
            "dense": arrow.array(dense, arrow.list_(arrow.float32(), 2)),
        }
    )
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=50)
    elif path.suffix == ".feather":
        feather.write_feather(table, path)
    else:
        kind = arrow.ipc.new_stream if path.suffix == ".ipc" else arrow.ipc.new_file
        with kind(str(path), table.schema) as writer:
            writer.write_table(table, 50)


def text(path, rows):
    lines = []
    for ids, dense, label in rows:
        parts = [f"{len(ids)} {' '.join(map(str, ids))}", f"2 {' '.join(map(str, dense))}", f"1 {label}"]
        lines.append(" ".join(parts) + "\n")
    path.write_text("".join(lines))


def batches(kind, paths, threads=1):
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
            dense = paddle.static.data("dense", [None, 2], "float32")
            label = paddle.static.data("label", [None, 1], "int64")
        dataset = getattr(paddle.distributed, kind)()
        dataset.init(batch_size=7, thread_num=threads, use_var=[ids, dense, label])
        dataset.set_filelist([str(path) for path in paths])
        if kind == "InMemoryDataset":
            dataset.load_into_memory()
        got = []
        for batch in paddle.io.DataLoader.from_dataset(dataset, [paddle.CPUPlace()], drop_last=False):
            found = batch[0] if isinstance(batch, list) else batch
            got.append([(np.array(found[name]).tolist(), found[name].lod()) for name in ("ids", "dense", "label")])
        return got
    finally:
        paddle.disable_static()


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "ipc"])
def test_lines(tmp_path, suffix):
    path, lines, out = tmp_path / f"a.{suffix}", tmp_path / "a.txt", io.BytesIO()
    write(path, ROWS)
    text(lines, ROWS)
    with open(path, "rb") as file:
        columns.convert(file, ["ids", "dense", "label"], out)
    got, want = out.getvalue().decode().splitlines(), lines.read_text().splitlines()
    assert len(got) == len(want) == 120
    for line, other in zip(got, want, strict=True):
        assert list(map(float, line.split())) == list(map(float, other.split()))


def test_kinds_of_columns(tmp_path):
    from pyarrow import parquet

    path, out = tmp_path / "a.parquet", io.BytesIO()
    table = {
        "lists": arrow.array([[1, 2], [], None], arrow.list_(arrow.int32())),
        "large": arrow.array([[3], [4, 5], []], arrow.large_list(arrow.int64())),
        "missing": arrow.array([1.5, None, 2.0]),
        "flags": arrow.array([True, False, True]),
    }
    parquet.write_table(arrow.table(table), path)
    with open(path, "rb") as file:
        columns.convert(file, list(table), out)
    assert out.getvalue() == b"2 1 2 1 3 1 1.5 1 1\n0 2 4 5 0 1 0\n0 0 1 2 1 1\n"
    with open(path, "rb") as file, pytest.raises(SystemExit, match="no column 'dense'; it has lists, large"):
        columns.convert(file, ["dense"], out)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["InMemoryDataset", "QueueDataset"])
def test_the_same_as_text(tmp_path, kind):
    write(tmp_path / "a.parquet", ROWS)
    text(tmp_path / "a.txt", ROWS)
    want = batches(kind, [tmp_path / "a.txt"])
    assert len(want) == 18 and batches(kind, [tmp_path / "a.parquet"]) == want


def test_mixed_files(tmp_path):
    write(tmp_path / "a.parquet", ROWS[:3])
    with pytest.raises(ValueError, match="either text or files with columns"):
        batches("InMemoryDataset", [tmp_path / "a.parquet", tmp_path / "b.txt"])
