"""Data sets of MultiSlot text: formats, damaged files, pipe commands, shuffles, descriptions."""

from __future__ import annotations

import gzip
import os
import signal
import sys
import time
from collections import Counter

import numpy as np
import paddle
import paddle._core as core
import pytest
from paddle import fluid
from paddle._basics.message import Message
from paddle.distributed import InMemoryDataset, QueueDataset, fleet

pytestmark = pytest.mark.usefixtures("static")

LINES = ["2 1 2 2 0.5 1 1 0", "1 3 2 1.5 -2 1 1", "3 4 0 5 2 0 0 1 0"]


@pytest.fixture
def variables(static):
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    dense = paddle.static.data("dense", [None, 2], "float32")
    label = paddle.static.data("label", [None, 1], "int64", lod_level=0)
    return [ids, dense, label]


@pytest.fixture
def write(tmp_path):
    def write_lines(lines, name="a.txt"):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines))
        return str(path)

    return write_lines


def made(kind, variables, files, **settings):
    dataset = kind()
    dataset.init(use_var=variables, **{"batch_size": 2, **settings})
    dataset.set_filelist(files)
    if isinstance(dataset, InMemoryDataset):
        dataset.load_into_memory()
    return dataset


def batches(dataset, threads=1):
    """All batches of all threads: tensors by name."""
    dataset._prepare_to_run()
    names, readers = dataset.dataset.batches(threads)
    for reader in readers:
        while (batch := reader.next()) is not None:
            yield dict(zip(names, batch[1], strict=True))


def instances(dataset, slot="ids", threads=1):
    found = []
    for batch in batches(dataset, threads):
        values, lod = np.array(batch[slot]).reshape(-1), batch[slot].lod()[0]
        found += [tuple(values[a:b].tolist()) for a, b in zip(lod, lod[1:], strict=False)]
    return found


@pytest.mark.parametrize("kind, kept", [(InMemoryDataset, [4, 5]), (QueueDataset, [4, 0, 5])])
def test_slots_become_tensors(variables, write, kind, kept):
    first, last = batches(made(kind, variables, [write(LINES)]))
    assert np.array(first["ids"]).tolist() == [[1], [2], [3]] and first["ids"].lod() == [[0, 2, 3]]
    np.testing.assert_array_equal(np.array(first["dense"]), np.float32([[0.5, 1], [1.5, -2]]))
    assert (first["dense"].lod(), first["label"].lod()) == ([], [])
    assert (np.array(first["label"]).tolist(), np.array(first["ids"]).dtype) == ([[0], [1]], np.int64)
    # in memory, zeros of sparse slots are dropped
    assert np.array(last["ids"]).reshape(-1).tolist() == kept
    assert np.array(last["label"]).tolist() == [[0]]


def test_an_instance_without_values_has_a_zero(write):
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    weights = paddle.static.data("weights", [None, 1], "float32", lod_level=1)
    dataset = made(InMemoryDataset, [ids, weights], [write(["2 0 0 1 1e-7", "1 5 2 0 2"])])
    (batch,) = batches(dataset)
    assert np.array(batch["ids"]).tolist() == [[0], [5]] and batch["ids"].lod() == [[0, 1, 2]]
    assert np.array(batch["weights"]).tolist() == [[0], [2]]


def test_a_line_may_be_a_batch(variables, write):
    dataset = made(InMemoryDataset, variables, [write(["3 7 8 9 6 1 2 3 4 5 6 3 0 1 0"])], batch_size=1, input_type=1)
    (batch,) = batches(dataset)
    assert batch["ids"].lod() == [[0, 1, 2, 3]] and batch["dense"].shape() == [3, 2]
    assert np.array(batch["label"]).tolist() == [[0], [1], [0]]
    with pytest.raises(ValueError, match="the batch size of the data set is 1"):
        list(batches(made(InMemoryDataset, variables, [write(LINES)], input_type=1)))


def test_extremes_of_integers(write):
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    dataset = made(QueueDataset, [ids], [write(["3 18446744073709551615 9223372036854775807 -2\r"])])
    assert instances(dataset) == [(-1, 2**63 - 1, -2)]


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
@pytest.mark.parametrize(
    "line, said",
    [
        ("", r"slot 'ids' \(1 of 3\): expected the number of values"),
        ("0 2 1 1 1 1", "expected the number of values"),
        ("-1 5 2 1 1 1 1", "expected the number of values"),
        ("2 1 x 2 1 1 1 1", r"value 2 of 2 is no integer of 64 bits \(near 'x'\)"),
        ("1 99999999999999999999 2 1 1 1 1", "value 1 of 1 is no integer"),
        ("1 1 2 1 one 1 1", r"slot 'dense' \(2 of 3\): value 2 of 2 is no number"),
        ("1 1 2 1 1 1", "has 1 values, but there are only 0"),
        ("2000000000 1", "has 2000000000 values, but there are only 1"),
        ("1 1 3 1 1 1 1 1", r"its shape \[-1, 2\] takes a multiple of 2 values, got 3"),
        ("1 1 2 1 1 1 1 nonsense", "what follows the 3 slots is none: 'nonsense'"),
        ("\x00\xff\xfe", "expected the number of values"),
    ],
)
def test_a_damaged_line_is_named(variables, write, kind, line, said):
    good = write(LINES * 3, "good.txt")
    bad = write([*LINES * 50, line, *LINES], "bad.txt")
    with pytest.raises(ValueError, match=f"bad.txt:151: .*{said}"):
        list(batches(made(kind, variables, [good, bad], thread_num=2)))


def test_unused_slots_may_follow(variables, write):
    dataset = made(InMemoryDataset, variables, [write([line + " 2 7 7 1 x" for line in LINES])])
    assert dataset.get_memory_data_size() == 3


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
def test_empty_files(variables, write, kind):
    files = [write([], "empty.txt"), write(LINES), write([], "empty2.txt")]
    assert len(instances(made(kind, variables, files, thread_num=3), threads=3)) == 3
    assert instances(made(kind, variables, files[:1])) == []
    assert instances(made(kind, variables, [])) == []


def test_a_file_without_a_last_newline(variables, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES))
    assert len(instances(made(InMemoryDataset, variables, [str(tmp_path / "a.txt")]))) == 3


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
def test_files_that_cannot_be_read(variables, tmp_path, kind):
    with pytest.raises(core.EnforceNotMet, match=r"cannot read the data file '.*none.txt'"):
        list(batches(made(kind, variables, [str(tmp_path / "none.txt")])))
    with pytest.raises(ValueError, match="is a folder"):
        list(batches(made(kind, variables, [str(tmp_path)])))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_order_does_not_depend_on_threads(variables, write, threads):
    lines = [[f"1 {f * 1000 + i} 2 1 1 1 1" for i in range(1, 300)] for f in range(4)]
    files = [write(some, f"{f}.txt") for f, some in enumerate(lines)]
    found = instances(made(InMemoryDataset, variables, files, thread_num=threads, batch_size=7), threads=threads)
    assert [v for v, *_ in found] == [int(line.split()[1]) for some in lines for line in some]


# ------------------------------------------------------------------------------------------------ pipe commands


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
def test_a_pipe_command_writes_the_lines(variables, write, tmp_path, kind):
    script = tmp_path / "script.py"
    script.write_text(
        "import paddle.distributed.fleet as fleet\n"
        "class Generator(fleet.MultiSlotDataGenerator):\n"
        "    def generate_sample(self, line):\n"
        "        def samples():\n"
        "            n = int(line)\n"
        "            yield [('ids', [n, n + 1]), ('dense', [0.5, float(n)]), ('label', [n % 2])]\n"
        "        return samples\n"
        "Generator().run_from_stdin()\n"
    )
    files = [write(map(str, range(1, 6))), write(["10"], "b.txt")]
    dataset = made(kind, variables, files, pipe_command=f"{sys.executable} {script} | grep -v '^2 3 4 '")
    assert sorted(instances(dataset)) == [(1, 2), (2, 3), (4, 5), (5, 6), (10, 11)]


def test_files_that_are_compressed_or_remote(variables, tmp_path, monkeypatch):
    with gzip.open(tmp_path / "a.gz", "wt") as file:
        file.write("\n".join(LINES))
    assert len(instances(made(InMemoryDataset, variables, [str(tmp_path / "a.gz")]))) == 3
    far = tmp_path / "far file.txt"
    far.write_text("\n".join(LINES))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afs:a.txt").write_text("\n".join(LINES))
    assert len(instances(made(InMemoryDataset, variables, ["afs:a.txt"], download_cmd="cat"))) == 3
    # the file's name is not part of the command line
    os.rename(far, tmp_path / 'a"; touch x; "$(touch y)')
    assert len(instances(made(QueueDataset, variables, ['a"; touch x; "$(touch y)'], pipe_command="head -9"))) == 3
    assert not (tmp_path / "x").exists() and not (tmp_path / "y").exists()


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
@pytest.mark.parametrize(
    "command, how",
    [
        ("head -n 2; exit 3", "ended with status 3 after 2 instances"),
        ("exit 5", "ended with status 5 after 0 instances"),
        ("false | cat", "ended with status 1"),
        ("head -n 2; kill -KILL $$", r"was killed by signal 9|ended with status 137 \(signal 9\)"),
        ("bash -c 'kill -KILL $$'", r"signal 9"),
    ],
)
def test_a_pipe_command_that_fails_is_named(variables, write, kind, command, how):
    with pytest.raises(OSError, match="the pipe command `.*` for the data file '.*a.txt' ") as error:
        list(batches(made(kind, variables, [write(LINES)], pipe_command=command)))
    assert command in str(error.value)
    error.match(how)


def test_a_missing_command_leaves_no_instances(variables, write, capfd):
    assert made(InMemoryDataset, variables, [write(LINES)], pipe_command="no_such_command_").get_memory_data_size() == 0
    assert "the pipe command `no_such_command_`" in capfd.readouterr().err


def running(path):
    return path.exists() and os.path.exists(f"/proc/{path.read_text().strip()}")


def test_a_reader_that_is_closed_ends_its_command(variables, write, tmp_path):
    pid = tmp_path / "pid"
    dataset = made(QueueDataset, variables, [write(LINES * 2)], pipe_command=f"echo $$ > {pid}; cat; sleep 1000")
    dataset._prepare_to_run()
    _, (reader,) = dataset.dataset.batches(1)
    assert reader.next()[0] == 2
    assert running(pid)
    reader.close()
    while running(pid):
        time.sleep(0.01)
    assert reader.next() is None


def test_ctrl_c_ends_a_load(variables, write, tmp_path):
    pid = tmp_path / "pid"

    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            made(InMemoryDataset, variables, [write(LINES)], pipe_command=f"echo $$ > {pid}; sleep 1000")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    while running(pid):
        time.sleep(0.01)


# ------------------------------------------------------------------------------------------------ in memory


def numbered(n):
    return [f"2 {i} {i + n} 2 {i} 1 1 {i % 2}" for i in range(1, n + 1)]


def test_local_shuffle_keeps_the_instances(variables, write):
    dataset = made(InMemoryDataset, variables, [write(numbered(500))], batch_size=32, thread_num=2)
    before = instances(dataset, threads=2)
    assert (dataset.get_memory_data_size(), dataset.get_shuffle_data_size()) == (500, 0)
    dataset.local_shuffle()
    after = instances(dataset, threads=2)
    assert after != before and Counter(after) == Counter(before)
    assert dataset.get_shuffle_data_size() == 500
    dataset.global_shuffle()
    assert Counter(instances(dataset)) == Counter(before)
    dataset.release_memory()
    assert (dataset.get_memory_data_size(), instances(dataset)) == (0, [])


def test_preload(variables, write):
    dataset = InMemoryDataset()
    dataset.init(use_var=variables, batch_size=4, thread_num=2)
    dataset.set_filelist([write(numbered(100))])
    dataset.preload_into_memory()
    with pytest.raises(RuntimeError, match="wait_preload_done"):
        dataset.preload_into_memory()
    dataset.wait_preload_done()
    assert len(instances(dataset)) == 100
    dataset.set_filelist([write(["nonsense"])])
    dataset.preload_into_memory(1)
    with pytest.raises(ValueError, match="a.txt:1"):
        dataset.wait_preload_done()
    dataset.wait_preload_done()


def test_merge_by_lineid(static, write, caplog):
    ids = [paddle.static.data(n, [None, 1], "int64", lod_level=1) for n in ("a", "b")]
    dense = paddle.static.data("d", [None, 2], "float32")
    lines = [
        "1 one 1 7 1 0 2 0 0",
        "1 one 1 0 2 8 9 2 3 4",
        "1 lonely 1 1 1 1 2 0 0",
        "1 both 1 1 1 0 2 0 0",
        "1 both 1 2 1 0 2 0 0",
        "1 empty 1 0 1 0 2 1 2",
        "1 empty 1 5 1 0 2 0 0",
    ]
    dataset = InMemoryDataset()
    dataset.init(use_var=[*ids, dense], batch_size=8)
    dataset.update_settings(merge_size=2)
    dataset.set_filelist([write(lines)])
    dataset.load_into_memory()
    dataset.global_shuffle()
    (batch,) = batches(dataset)
    a, b = (np.array(batch[n]).reshape(-1).tolist() for n in "ab")
    rows = np.array(batch["d"]).tolist()
    ends = batch["b"].lod()[0]
    found = {v: (b[ends[i] : ends[i + 1]], rows[i]) for i, v in enumerate(a)}
    assert found == {7: ([8, 9], [3, 4]), 5: ([0], [1, 2])}
    assert "'lonely'" in caplog.text and "'both'" in caplog.text and "slot 'a'" in caplog.text
    assert "3 instances are left out" in caplog.text


def test_slots_shuffle(variables, write):
    dataset = made(InMemoryDataset, variables, [write(numbered(200))], batch_size=200)
    dataset.slots_shuffle(["ids"])
    assert instances(dataset)[0] == (1, 201)  # no effect without fea_eval
    dataset.update_settings(fea_eval=True, candidate_size=50)
    before = instances(dataset)
    dataset.slots_shuffle(["ids"])
    (batch,) = batches(dataset)
    assert instances(dataset) != before and set(instances(dataset)) <= set(before)
    assert np.array(batch["dense"])[:, 0].tolist() == list(range(1, 201))
    dataset.slots_shuffle(["label"])  # the ids are restored
    assert instances(dataset) == before
    with pytest.raises(ValueError, match="no slot 'unknown'"):
        dataset.slots_shuffle(["unknown"])
    with pytest.raises(ValueError, match="only slots of integers"):
        dataset.slots_shuffle(["dense"])


def test_other_variables_than_were_loaded(variables, write):
    dataset = made(InMemoryDataset, variables[:1], [write(["1 5"])])
    dataset.update_settings(use_var=variables[1:2])
    with pytest.raises(core.EnforceNotMet, match="have changed since"):
        list(batches(dataset))


def test_local_tables(variables, write):
    dataset = made(InMemoryDataset, variables, [write(numbered(10))])
    dataset._set_generate_unique_feasigns(True, 3)
    dataset._generate_local_tables_unlock(0, 11, 1, 2, 3)
    tables = dataset.dataset._local_tables
    assert set().union(*tables) == set(range(21)) and all(v % 3 == i for i, t in enumerate(tables) for v in t)


# ------------------------------------------------------------------------------------------------ names


def test_descriptions(variables, tmp_path):
    dataset = made(QueueDataset, variables, [])
    text = dataset._desc()
    assert 'name: "MultiSlotDataFeed"\nbatch_size: 2\n' in text and "    shape: -1\n    shape: 2\n" in text
    (tmp_path / "feed.proto").write_text(text)
    desc = fluid.DataFeedDesc(str(tmp_path / "feed.proto"))
    assert desc.desc() == text
    desc.set_dense_slots(["ids"])
    assert desc.proto_desc.multi_slot_desc.slots[0].is_dense
    native = core_dataset = fluid.core.Dataset("MultiSlotDataset")
    native.set_data_feed_desc(desc.desc())
    assert core_dataset._desc.multi_slot_desc.slots[2].name == "label"
    with pytest.raises(KeyError):
        desc.set_use_slots(["absent"])
    (tmp_path / "bad.proto").write_text("name: 'x'\nslots {}\n")
    with pytest.raises(ValueError, match="line 2: DataFeedDesc has no field 'slots'"):
        fluid.DataFeedDesc(str(tmp_path / "bad.proto"))


def test_wrong_settings(static, write):
    with pytest.raises(ValueError, match="float32 and int64"):
        made(QueueDataset, [paddle.static.data("x", [None, 1], "float64")], [])
    x = paddle.static.data("y", [None, None], "float32")
    with pytest.raises(ValueError, match="one size at most may be open"):
        made(InMemoryDataset, [x], [write(LINES)])
    with pytest.raises(ValueError, match="batch size of a data set is positive"):
        made(InMemoryDataset, [], [write(LINES)], batch_size=0)
    with pytest.raises(TypeError, match="filelist must be a list of names, got 'a.txt'"):
        made(QueueDataset, [], "a.txt")
    with pytest.raises(NotImplementedError, match="PaddleBoxDataFeed"):
        made(InMemoryDataset, [], [], data_feed_type="PaddleBoxDataFeed")
    with pytest.raises(ValueError, match="MyOwnDataset does not exist"):
        fluid.DatasetFactory().create_dataset("MyOwnDataset")


def test_fluid_names(variables, write):
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_batch_size(3)
    dataset.set_thread(2)
    dataset.set_use_var(variables)
    dataset.set_pipe_command("tac")
    dataset.set_filelist([write(LINES)])
    dataset.load_into_memory()
    dataset.set_fea_eval(10, True)
    dataset.slots_shuffle(["label"])
    dataset.local_shuffle()
    assert dataset.get_memory_data_size() == 3 and 'pipe_command: "tac"' in dataset.desc()
    queue = fluid.DatasetFactory().create_dataset()
    assert isinstance(queue, QueueDataset) and isinstance(queue, fluid.QueueDataset)
    for shuffle in (queue.local_shuffle, queue.global_shuffle):
        with pytest.raises(NotImplementedError, match="use InMemoryDataset"):
            shuffle()


def test_boxps_names_what_it_needs(variables, write):
    dataset = fleet.BoxPSDataset()
    dataset.init(use_var=variables, batch_size=2)
    dataset.set_filelist([write(LINES)])
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == 3
    for call in (dataset.begin_pass, lambda: dataset.end_pass(True), lambda: dataset.set_date("20210301")):
        with pytest.raises(NotImplementedError, match="BoxPS service"):
            call()
    dataset.init(use_var=[], enable_pv_merge=True)
    with pytest.raises(NotImplementedError, match="PaddleBox"):
        dataset.load_into_memory()


@pytest.mark.parametrize("drop_last, steps", [(True, 1), (False, 2)])
def test_loader_over_places(variables, write, drop_last, steps):
    files = [write(numbered(n), f"{n}.txt") for n in (10, 6)]
    dataset = made(QueueDataset, variables, files, batch_size=4, thread_num=2)
    loader = fluid.io.DataLoader.from_dataset(dataset, fluid.cpu_places(2), drop_last)
    for _ in range(3):
        found = list(loader())
        # after the end of one reader the other one fills the last step; an incomplete step is dropped
        shapes = [[step["label"].shape() for step in both] for both in found]
        assert shapes == [[[4, 1], [4, 1]], [[4, 1], [2, 1]]][:steps]


def test_a_message_without_its_schema():
    """copy and pickle create a message without __init__, and look attributes up on it."""
    message = Message.__new__(Message)
    for name in ("schema", "_values", "batch_size", "__setstate__"):
        assert not hasattr(message, name)
    with pytest.raises(AttributeError, match="Message has no schema"):
        message.get("batch_size")


def test_integers_in_memory_are_counted(variables, write):
    def count() -> int:
        return fluid.core.get_int_stats()["STAT_total_feasign_num_in_mem"]

    before, dataset = count(), made(InMemoryDataset, variables, [write(LINES)])
    for _ in range(2):
        assert count() == before + 5 + 3  # an id of 0 is dropped, a label of 0 is kept
        dataset.load_into_memory()
    dataset.release_memory()
    assert count() == before
