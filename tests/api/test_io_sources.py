"""DataLoader: sources other than paddle.io.Dataset, persistent workers, reading ahead, seeds, whole batches."""

from __future__ import annotations

import os
import random

import numpy as np
import paddle
import pytest
from paddle.io import BatchSampler, DataLoader, Dataset, IterableDataset, get_worker_info

WORKERS = [0, 2]


def first(loader):
    return [batch[0].numpy().ravel().tolist() for batch in loader]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_list(workers):
    samples = [(np.float32([i, i]), i) for i in range(5)]
    loader = DataLoader(samples, batch_size=2, num_workers=workers)
    assert len(loader) == 3
    assert [batch[1].tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
    assert first(DataLoader(range(4), batch_size=4, num_workers=workers)) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("workers", WORKERS)
def test_several_samples_at_once(workers):
    class Rows:
        """As Hugging Face's datasets: rows are dicts."""

        def __len__(self):
            return 4

        def __getitem__(self, i):
            raise AssertionError("read one by one")

        def __getitems__(self, indices):
            return [{"text": f"t{i}", "label": i, "vector": [float(i), 1.0]} for i in indices]

    (batch,) = DataLoader(Rows(), batch_size=4, num_workers=workers)
    assert batch["text"] == ["t0", "t1", "t2", "t3"] and batch["label"].tolist() == [0, 1, 2, 3]
    assert [v.tolist() for v in batch["vector"]] == [[0.0, 1.0, 2.0, 3.0], [1.0] * 4]


@pytest.mark.parametrize("workers", WORKERS)
def test_an_iterable(workers):
    class Again:
        def __iter__(self):
            info = get_worker_info()
            return (np.float32([i]) for i in range(4) if info is None or i % info.num_workers == info.id)

    loader = DataLoader(Again(), batch_size=2, num_workers=workers, persistent_workers=workers > 0)
    for _ in range(3):
        assert sorted(sum(first(loader), [])) == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_tables(library):
    module = pytest.importorskip(library)
    columns = {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    for workers in WORKERS:
        batches = list(DataLoader(table, batch_size=2, num_workers=workers))
        assert [b["a"].tolist() for b in batches] == [[1, 2], [3]] and batches[1]["b"].tolist() == [2.5]


def test_what_is_no_source():
    for source in (7, {"a": 1}, "text", iter([1, 2]), None):
        with pytest.raises(AssertionError, match="DataLoader: dataset must be a paddle.io.Dataset or have __getitem__"):
            DataLoader(source)
    with pytest.raises(AssertionError, match="BatchSampler: dataset must be"):
        BatchSampler(7)
    with pytest.raises(ValueError, match="prefetch_factor must be a positive int, got 0"):
        DataLoader([1], num_workers=1, prefetch_factor=0)


class Pids(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return np.int64([i, os.getpid()])


def pids(loader):
    rows = np.concatenate([batch[0].numpy() for batch in loader])
    assert rows[:, 0].tolist() == list(range(8))
    return set(rows[:, 1].tolist())


def test_persistent_workers():
    loader = DataLoader(Pids(), batch_size=2, num_workers=2, persistent_workers=True)
    seen = pids(loader)
    assert len(seen) == 2 and pids(loader) == seen
    for _ in range(3):  # a pass that ends early leaves nothing to the next one
        next(iter(loader))
        assert pids(loader) == seen
    early = iter(loader)
    next(early)
    assert pids(loader) == seen
    with pytest.raises(RuntimeError, match="one pass runs at a time"):
        next(early)
    processes = loader._pool._processes
    del loader, early
    for process in processes:
        process.join(10)
    assert not any(process.is_alive() for process in processes)
    again = DataLoader(Pids(), batch_size=2, num_workers=2)
    assert pids(again) != pids(again)  # others for each pass


def test_persistent_workers_after_an_error():
    class Fails(Pids):
        def __getitem__(self, i):
            if i == 5:
                raise KeyError("five")
            return super().__getitem__(i)

    loader = DataLoader(Fails(), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        with pytest.raises(KeyError, match="five"):
            list(loader)
    os.kill(loader._pool._processes[0].pid, 9)
    loader._pool._processes[0].join(10)
    with pytest.raises(KeyError, match="five"):  # by new workers
        list(loader)


def test_reading_ahead(tmp_path):
    class Counted(Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, i):
            (tmp_path / str(i)).touch()
            return np.float32([i])

    for factor in (1, 5):
        for path in tmp_path.iterdir():
            path.unlink()
        passing = iter(DataLoader(Counted(), batch_size=1, num_workers=2, prefetch_factor=factor))
        assert passing._pool._next_number == 2 * factor
        next(passing)
        passing._close()
        assert len(list(tmp_path.iterdir())) <= 2 * factor + 1


class Draws(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return np.float64([np.random.rand(), random.random(), paddle.rand([1]).item(), get_worker_info().seed])


def test_workers_draw_different_numbers():
    loader = DataLoader(Draws(), batch_size=1, num_workers=2, persistent_workers=True)
    np.random.seed(4)
    state = np.random.get_state()[1].tolist()
    passes = [np.concatenate([batch[0].numpy() for batch in loader]) for _ in range(2)]
    assert np.random.get_state()[1].tolist() == state  # shuffling follows the user's seed
    rows = np.concatenate(passes)
    for column in range(3):
        assert len(set(rows[:, column].tolist())) == 8
    assert len(set(rows[:, 3].tolist())) == 4
    np.random.seed(4)
    again = DataLoader(Draws(), batch_size=1, num_workers=2)
    np.testing.assert_array_equal(np.concatenate([batch[0].numpy() for batch in again]), passes[0])


def test_init_fn_may_seed():
    def seed(worker):
        np.random.seed(100 + worker)

    got = np.concatenate([b[0].numpy() for b in DataLoader(Draws(), batch_size=1, num_workers=2, worker_init_fn=seed)])
    want = [np.random.RandomState(100 + worker).rand(2) for worker in (0, 1)]
    np.testing.assert_array_equal(got[:, 0], [want[0][0], want[1][0], want[0][1], want[1][1]])


class Mixed(Dataset):
    def __init__(self, shape):
        self.shape = shape

    def __len__(self):
        return 6

    def __getitem__(self, i):
        image = np.full(self.shape, i, "uint8")
        return {
            "image": image,
            "view": np.asfortranarray(np.full((3, 4), i, "float32")),
            "flag": np.array([i > 2]),
            "half": np.full((2,), i, "float16"),
            "empty": np.zeros((0, 2), "float32"),
            "scalar": np.float64(i),
        }


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("shape", [(2, 2), (300, 200, 3)])
def test_kinds_of_arrays(workers, shared, shape):
    loader = DataLoader(Mixed(shape), batch_size=4, num_workers=workers, use_shared_memory=shared)
    batches = list(loader)
    for start, batch in zip((0, 4), batches, strict=True):
        n = 4 if start == 0 else 2
        assert batch["image"].shape == [n, *shape] and batch["empty"].shape == [n, 0, 2]
        expected = np.arange(start, start + n)
        np.testing.assert_array_equal(batch["image"].numpy().reshape(n, -1).max(1), expected)
        np.testing.assert_array_equal(batch["view"].numpy().min((1, 2)), expected)
        assert batch["flag"].numpy().ravel().tolist() == (expected > 2).tolist()
        assert batch["half"].dtype == "float16" and batch["scalar"].tolist() == expected.tolist()
    x = batches[0]["image"]
    x[0] = 9  # the memory is the Tensor's own
    assert x.numpy()[0].min() == 9 and x.numpy()[1].max() == 1
    y = batches[0]["view"]
    y.stop_gradient = False
    (y * y).sum().backward()
    np.testing.assert_array_equal(y.grad, 2 * y.numpy())


def test_more_samples_than_one_write_takes():
    samples = [np.full((64,), i, "float32") for i in range(2500)]
    (batch,) = DataLoader(samples, batch_size=2500, num_workers=1)
    np.testing.assert_array_equal(batch[0].numpy()[:, 7], np.arange(2500))


def test_iterable_datasets_keep_their_rules():
    class Own(IterableDataset):
        def __iter__(self):
            return iter([np.float32([1.0])])

    with pytest.raises(ValueError, match="not support shuffle"):
        DataLoader(Own(), shuffle=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_take_the_memory_of_their_arrays(workers):
    """Tensors of a batch are their own: neither the samples nor another field change with them."""
    samples = [(np.full([64, 64], i, "float32"), np.int64(i), np.full([3], i % 2 == 0)) for i in range(4)]
    for x, label, flag in paddle.io.DataLoader(samples, batch_size=2, num_workers=workers):
        assert x.dtype == "float32" and label.tolist() == [x[0, 0, 0].item(), x[1, 0, 0].item()]
        assert flag.dtype == "bool" and flag[:, 0].tolist() == [True, False]
        kept, before = paddle.tanh(x), x * 1.0
        x.add_(paddle.ones([1]))
        assert (x - before).numpy().max() == 1.0 and np.isfinite(kept.numpy()).all()
    assert [s[0][0, 0] for s in samples] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("workers", [0, 2])
def test_one_array_in_two_fields_gives_two_tensors(workers):
    def twice(batch):
        joined = np.stack(batch)
        return joined, joined

    samples = [np.full([64, 64], i, "float32") for i in range(2)]
    [(first, second)] = paddle.io.DataLoader(samples, batch_size=2, num_workers=workers, collate_fn=twice)
    first.add_(paddle.ones([1]))
    assert second[1].numpy().max() == 1.0 and first[1].numpy().max() == 2.0


def test_a_custom_collate_fn_keeps_its_arrays():
    """With a function of the user's the arrays may have other owners: they are copied."""
    buffer = np.zeros([2, 8], "float32")

    def fill(batch):
        buffer[:] = batch
        return buffer

    batches = list(paddle.io.DataLoader(list(range(4)), batch_size=2, collate_fn=lambda b: fill(np.array(b)[:, None])))
    assert [b[0][:, 0].tolist() for b in batches] == [[0.0, 1.0], [2.0, 3.0]]
