"""Data sets of Parquet, Arrow and Feather files give what the same rows as text give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
def test_columns(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    write(path, ROWS)
    rows = []
    for parts in columns.read(str(path), [("ids", False), ("dense", True), ("label", False)]):
        assert [values.dtype for _, values in parts] == ["int64", "float32", "int64"]
        (ids_at, ids), (dense_at, dense), (label_at, label) = parts
        assert label_at is None
        for i, value in enumerate(label.tolist()):
            own = ids[ids_at[i] : ids_at[i + 1]].tolist(), dense[dense_at[i] : dense_at[i + 1]].tolist(), value
            rows.append(own)
    assert rows == [(ids, np.float32(dense).tolist(), label) for ids, dense, label in ROWS]


KINDS = {
    "lists": arrow.array([[1, 2], [], None], arrow.list_(arrow.int32())),
    "large": arrow.array([[3], [4, 5], []], arrow.large_list(arrow.int64())),
    "fixed": arrow.array([[3, 4], None, [5, 6]], arrow.list_(arrow.int64(), 2)),
    "missing": arrow.array([1.5, None, 2.0]),
    "flags": arrow.array([True, False, True]),
    "text": arrow.array(["a", "b", "c"]),
    "holes": arrow.array([[1, None], [2], [3]]),
    "half": arrow.array([0.5, 1.0, 2.0]),
}


def read_one(path, name, real=False):
    [[(offsets, values)]] = columns.read(str(path), [(name, real)])
    return None if offsets is None else offsets.tolist(), values.tolist()


def test_kinds_of_columns(tmp_path):
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table(KINDS), path)
    assert read_one(path, "lists") == ([0, 2, 2, 2], [1, 2])
    assert read_one(path, "large") == ([0, 1, 3, 3], [3, 4, 5])
    assert read_one(path, "fixed") == ([0, 2, 2, 4], [3, 4, 5, 6])
    assert read_one(path, "missing", True) == ([0, 1, 1, 2], [1.5, 2.0])
    assert read_one(path, "flags") == (None, [1, 0, 1])
    assert read_one(path, "flags", True) == (None, [1.0, 0.0, 1.0])
    for name, why in [
        ("text", "of string does not give int64"),
        ("holes", "a list holds a null"),
        ("half", "truncated"),
    ]:
        with pytest.raises(ValueError, match=f"a.parquet: column '{name}' .*{why}"):
            read_one(path, name)
    with pytest.raises(ValueError, match="a.parquet has no column 'dense'; it has lists, large"):
        read_one(path, "dense")


@pytest.mark.parametrize("kind", ["InMemoryDataset", "QueueDataset"])
def test_faults_are_named(tmp_path, kind):
    """Errors of the readers' threads arrive with the file, the row and the column."""
    write(tmp_path / "a.parquet", [*ROWS[:4], ([], [1.0, 2.0], 3)])
    with pytest.raises(ValueError, match="a.parquet: row 5: column 'ids' has no value"):
        batches(kind, [tmp_path / "a.parquet"])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(Exception, match="(?i)parquet"):
        batches(kind, [tmp_path / "b.parquet"])
    with pytest.raises(FileNotFoundError, match="c.parquet"):
        batches(kind, [tmp_path / "c.parquet"])


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "ipc"])
def test_values_of_uint64(tmp_path, suffix):
    """All 64 bits of an id, as in text."""
    from pyarrow import parquet

    path = tmp_path / f"a.{suffix}"
    ids = [[2**64 - 1, 2**63], [5], [2**63 - 1]]
    table = arrow.table(
        {
            "ids": arrow.array(ids, arrow.list_(arrow.uint64())),
            "dense": arrow.array([[1.0, 2.0]] * 3),
            "label": arrow.array([2**64 - 1, 7, 8], arrow.uint64()),
        }
    )
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        kind = arrow.ipc.new_stream if suffix == "ipc" else arrow.ipc.new_file
        with kind(str(path), table.schema) as writer:
            writer.write_table(table)
    text(tmp_path / "a.txt", [(own, [1.0, 2.0], label) for own, label in zip(ids, [2**64 - 1, 7, 8], strict=True)])
    got = batches("InMemoryDataset", [path])
    assert got == batches("InMemoryDataset", [tmp_path / "a.txt"])
    assert got[0][0][0] == [[-1], [-(2**63)], [5], [2**63 - 1]]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_two_columns_of_a_name(tmp_path, suffix):
    from pyarrow import parquet

    path = tmp_path / f"a.{suffix}"
    table = arrow.table([arrow.array([1]), arrow.array([2]), arrow.array([3])], names=["label", "label", "other"])
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        with arrow.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(ValueError, match=f"a.{suffix} has 2 columns 'label'"):
        read_one(path, "label")
    assert read_one(path, "other") == (None, [3])


def test_remote_files(tmp_path):
    """A remote file is the output of the download command."""
    paddle.enable_static()
    try:
        write(tmp_path / "a.parquet", ROWS)
        with paddle.static.program_guard(paddle.static.Program()):
            label = paddle.static.data("label", [None, 1], "int64")
        dataset = paddle.distributed.InMemoryDataset()
        dataset.init(batch_size=7, use_var=[label], download_cmd=f"cat {tmp_path}/a.parquet #")
        dataset.set_filelist(["hdfs:/a.parquet"])
        dataset.load_into_memory()
        assert dataset.get_memory_data_size() == len(ROWS)
        dataset.update_settings(download_cmd="false")
        with pytest.raises(OSError, match="`false` for the data file 'hdfs:/a.parquet' ended with status 1"):
            dataset.load_into_memory()
    finally:
        paddle.disable_static()


def end_early(tmp_path, kind, runs):
    write(tmp_path / "a.parquet", ROWS * 500)
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import paddle, test_columns
paddle.enable_static()
with paddle.static.program_guard(paddle.static.Program()):
    label = paddle.static.data("label", [None, 1], "int64")
dataset = paddle.distributed.{kind}()
dataset.init(batch_size=2, use_var=[label], thread_num=2)
dataset.set_filelist([{str(tmp_path / "a.parquet")!r}] * 4)
dataset.load_into_memory() if {kind!r} == "InMemoryDataset" else None
for _ in paddle.io.DataLoader.from_dataset(dataset, [paddle.CPUPlace()] * 2):
    break
print("end")
"""
    for _ in range(runs):
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
        assert (run.returncode, run.stdout, run.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("kind", ["InMemoryDataset", "QueueDataset"])
def test_a_run_that_ends_early(tmp_path, kind):
    """Readers of files with columns neither keep the process from ending nor abort it."""
    end_early(tmp_path, kind, 1)


@pytest.mark.slow
def test_many_runs_that_end_early(tmp_path):
    """A reader in pyarrow while the interpreter ends aborted 4 in 100 processes."""
    end_early(tmp_path, "QueueDataset", 40)


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


@pytest.mark.parametrize("suffix", columns.SUFFIXES)
@pytest.mark.parametrize("kept", [0, 3, 20, 300])
def test_a_damaged_file_is_named(tmp_path, suffix, kept) -> None:
    path = tmp_path / f"rows{suffix}"
    write(path, ROWS)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises((ValueError, OSError), match=path.name):
        batches("InMemoryDataset", [path])


MUTATED = """
import random, sys
from paddle.distributed.fleet.dataset import columns

path, found = sys.argv[1], set()
with open(path, "rb") as file:
    content = file.read()
for seed in range(300):
    draw, data = random.Random(seed), bytearray(content)
    for _ in range(draw.choice([1, 1, 3])):
        data[draw.choice([draw.randrange(len(data)), -1 - draw.randrange(min(700, len(data)))])] = draw.randrange(256)
    with open(path, "wb") as file:
        file.write(data)
    try:
        list(columns.read(path, [("ids", False), ("dense", True), ("label", False)]))
    except (OSError, ValueError) as error:
        assert path in str(error), (seed, error)
        found.add(type(error))
print(len(found))
"""


@pytest.mark.parametrize("suffix", columns.SUFFIXES)
def test_mutated_files(tmp_path, suffix) -> None:
    """Damaged bytes end neither the process nor in an error without the file (offsets in an Arrow file did)."""
    path = tmp_path / f"rows{suffix}"
    write(path, ROWS)
    run = subprocess.run([sys.executable, "-c", MUTATED, str(path)], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (0, "2\n"), run.stderr[-2000:]
