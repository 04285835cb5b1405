"""DataLoader: batches read by this process and by workers."""

import collections

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle._basics.dtypes import VarType  # noqa: E402
from paddle.io import BatchSampler, DataLoader, Dataset, IterableDataset, get_worker_info  # noqa: E402

WORKERS = [(0, True), (2, True), (2, False), (3, True)]


class Pairs(Dataset):
    def __init__(self, n, shape=(3,)):
        self.n, self.shape = n, shape

    def __getitem__(self, idx):
        return np.full(self.shape, idx, "float32"), np.int64([idx])

    def __len__(self):
        return self.n


class Numbers(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (np.float32([i]) for i in range(start, self.n, step))


def values(loader, field=1):
    return [batch[field].numpy().ravel().tolist() for batch in loader]


@pytest.mark.parametrize(("workers", "shared"), WORKERS)
@pytest.mark.parametrize("shape", [(3,), (64, 65)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_in_order(workers, shared, shape, drop_last):
    loader = DataLoader(
        Pairs(23, shape), batch_size=5, num_workers=workers, use_shared_memory=shared, drop_last=drop_last
    )
    got = list(loader)
    assert len(got) == len(loader) == (4 if drop_last else 5)
    for number, (image, label) in enumerate(got):
        expected = np.arange(number * 5, min(number * 5 + 5, 23))
        assert image.shape == [len(expected), *shape] and image.dtype == VarType.FP32
        assert label.dtype == VarType.INT64 and isinstance(got[0], list)
        np.testing.assert_array_equal(label.numpy().ravel(), expected)
        np.testing.assert_array_equal(image.numpy().reshape(len(expected), -1).min(1), expected)
        np.testing.assert_array_equal(image.numpy().reshape(len(expected), -1).max(1), expected)
    assert values(loader()) == values(loader)  # a second pass, and the call form


@pytest.mark.parametrize(("workers", "shared"), WORKERS)
def test_shuffle_follows_numpy_seed(workers, shared):
    def run():
        np.random.seed(3)
        return values(DataLoader(Pairs(20), batch_size=4, shuffle=True, num_workers=workers))

    np.random.seed(3)
    order = np.random.choice(np.arange(20), 20, replace=False).reshape(5, 4).tolist()
    assert run() == order and run() == order


@pytest.mark.parametrize(("workers", "shared"), WORKERS)
def test_iterable(workers, shared):
    def run(n, batch_size, drop_last):
        loader = DataLoader(
            Numbers(n), batch_size=batch_size, num_workers=workers, use_shared_memory=shared, drop_last=drop_last
        )
        return values(loader, 0)

    got = run(17, 2, False)
    assert sorted(sum(got, [])) == list(range(17))
    if workers < 2:
        assert got == [[i, i + 1] for i in range(0, 16, 2)] + [[16]]
    if workers == 2:
        assert got[:4] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert all(len(batch) == 2 for batch in run(17, 2, True))
    assert run(0, 2, False) == []
    assert sorted(sum(run(2, None, False), [])) == [0, 1]
    with pytest.raises(ValueError):
        len(DataLoader(Numbers(3)))
    with pytest.raises(ValueError):
        DataLoader(Numbers(3), shuffle=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_without_automatic_batches(workers):
    loader = DataLoader(Pairs(6), batch_size=None, num_workers=workers)
    assert len(loader) == 6
    assert [image.shape for image, _ in loader] == [[3]] * 6
    assert values(loader) == [[i] for i in range(6)]


@pytest.mark.parametrize("workers", [0, 2])
def test_batch_sampler_and_collate(workers):
    sampler = BatchSampler(Pairs(7), batch_size=3)

    def collate(samples):
        return {"x": np.stack([s[0] for s in samples]), "name": "batch", "n": [np.int64([len(samples)])]}

    got = list(DataLoader(Pairs(7), batch_sampler=sampler, collate_fn=collate, num_workers=workers))
    assert [batch["x"].shape for batch in got] == [[3, 3], [3, 3], [1, 3]]
    assert got[0]["name"] == "batch" and got[2]["n"][0].numpy().tolist() == [1]
    with pytest.raises(AssertionError):
        DataLoader(Pairs(7), batch_sampler=sampler, shuffle=True)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("sample", "shapes"),
    [
        (np.ones(3, "float32"), [[2, 3]]),
        (3, [[2]]),
        (2.5, [[2]]),
        (True, [[2]]),
        ([np.ones((2, 2)), 1], [[2, 2, 2], [2]]),
        ((np.float32(1), np.ones(1)), [[2], [2, 1]]),
    ],
)
def test_default_collate(workers, sample, shapes):
    class Same(Pairs):
        def __getitem__(self, idx):
            return sample

    (batch,) = DataLoader(Same(2), batch_size=2, num_workers=workers)
    assert isinstance(batch, list) and [field.shape for field in batch] == shapes


@pytest.mark.parametrize("workers", [0, 2])
def test_default_collate_keeps_structure(workers):
    class Nested(Pairs):
        def __getitem__(self, idx):
            return {"a": np.float32([idx]), "b": [idx, {"c": np.ones(2)}], "s": "word", "n": np.str_("word")}

    (batch,) = DataLoader(Nested(2), batch_size=2, num_workers=workers)
    assert batch["a"].numpy().tolist() == [[0.0], [1.0]] and batch["b"][0].numpy().tolist() == [0, 1]
    assert batch["b"][1]["c"].shape == [2, 2] and batch["s"] == batch["n"] == ["word", "word"]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_may_be_tensors(workers):
    class Tensors(Pairs):
        def __getitem__(self, idx):
            return paddle.to_tensor(np.float32([idx])), idx

    assert values(DataLoader(Tensors(3), batch_size=3, num_workers=workers), 0) == [[0.0, 1.0, 2.0]]


def test_ragged_batch_says_so():
    class Ragged(Pairs):
        def __getitem__(self, idx):
            return np.ones(idx + 1)

    with pytest.raises(ValueError, match="same shape"):
        list(DataLoader(Ragged(2), batch_size=2))

    class Uneven(Pairs):
        def __getitem__(self, idx):
            return [idx] * (idx + 1)

    with pytest.raises(RuntimeError, match=r"different numbers of fields: \[1, 2\]"):
        list(DataLoader(Uneven(2), batch_size=2))


def test_worker_info_and_init_fn():
    class Where(Pairs):
        def __getitem__(self, idx):
            info = get_worker_info()
            return np.int64([info.id, info.num_workers, info.dataset.mark])

    def init(worker_id):
        get_worker_info().dataset.mark = 10 + worker_id

    assert get_worker_info() is None
    got = values(DataLoader(Where(4), num_workers=2, worker_init_fn=init), 0)
    assert got == [[0, 2, 10], [1, 2, 11], [0, 2, 10], [1, 2, 11]]


def test_worker_info_is_read_only():
    class Writes(Pairs):
        def __getitem__(self, idx):
            get_worker_info().id = 3

    with pytest.raises(RuntimeError, match="Cannot assign attributes"):
        list(DataLoader(Writes(1), num_workers=1))


def test_large_index_lists_do_not_deadlock():
    class Big(Pairs):
        def __getitem__(self, idx):
            return np.float32([idx])

    sampler = [list(range(200_000)) for _ in range(4)]

    def collate(samples):
        return [np.zeros(4_000_000, "uint8"), np.int64([len(samples)])]

    loader = DataLoader(Big(1), batch_sampler=sampler, collate_fn=collate, num_workers=1, use_shared_memory=False)
    assert values(loader) == [[200_000]] * 4


def test_wrong_arguments():
    with pytest.raises(AssertionError):
        DataLoader(BatchSampler(Pairs(4)))
    with pytest.raises(AssertionError):
        DataLoader(Pairs(4), num_workers=-1)
    with pytest.raises(AssertionError):
        DataLoader(Pairs(4), timeout=-1)
    with pytest.raises(ValueError, match="place must be|device"):
        DataLoader(Pairs(4), places="tpu")
    assert len(DataLoader(Pairs(4), places="cpu").places) == 1


@pytest.fixture
def static():
    paddle.enable_static()
    yield
    paddle.disable_static()


Feed = collections.namedtuple("Feed", "name shape dtype lod_level")


@pytest.mark.parametrize("workers", [0, 2])
def test_static_mode(static, workers):
    feeds = [Feed("x", (-1, 3), "float32", 0), Feed("y", (-1, 1), "int64", 0)]
    place = paddle.CPUPlace()
    options = {"feed_list": feeds, "batch_size": 4, "num_workers": workers}
    (first, *_) = DataLoader(Pairs(8), places=place, return_list=False, **options)
    assert len(first) == 1 and set(first[0]) == {"x", "y"}
    assert first[0]["x"].shape() == [4, 3] and first[0]["y"].shape() == [4, 1]
    (first, *_) = DataLoader(Pairs(8), places=place, **options)
    assert isinstance(first, list) and first[0].shape() == [4, 3]
    two = list(DataLoader(Pairs(12), places=[place, place], **options))
    assert len(two) == 1 and [len(fields) for fields in two[0]] == [2, 2]
    np.testing.assert_array_equal(np.array(two[0][1][1]).ravel(), [4, 5, 6, 7])
    with pytest.raises(AssertionError):
        DataLoader(Pairs(8), places=place, return_list=False)
    with pytest.raises(ValueError, match="feed_list has 1"):
        list(DataLoader(Pairs(8), feed_list=feeds[:1], places=place, return_list=False))
