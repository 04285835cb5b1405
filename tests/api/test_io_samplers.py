"""Datasets and samplers. The expected orders were recorded from PaddlePaddle 2.6.2 and are those of 2.0.2."""

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle.io as io  # noqa: E402

RANDOM = [2, 5, 0, 6, 3, 1, 4, 7]
DRAWN = [7, 4, 1, 6, 3, 3]
WEIGHTED = [0, 3, 2, 3, 3, 2]


class Count(io.Dataset):
    def __init__(self, n):
        self.n = n

    def __getitem__(self, idx):
        return idx

    def __len__(self):
        return self.n


class Stream(io.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def test_base_classes_raise():
    with pytest.raises(NotImplementedError):
        io.Dataset()[0]
    with pytest.raises(NotImplementedError):
        len(io.Dataset())
    with pytest.raises(NotImplementedError):
        iter(io.IterableDataset())
    with pytest.raises(RuntimeError):
        io.IterableDataset()[0]
    with pytest.raises(RuntimeError):
        len(io.IterableDataset())
    with pytest.raises(NotImplementedError):
        iter(io.Sampler(Count(3)))


def test_compose_chain_subset():
    pairs = io.ComposeDataset([Count(4), Count(4)])
    assert len(pairs) == 4 and pairs[3] == (3, 3)
    with pytest.raises(AssertionError):
        io.ComposeDataset([Count(4), Count(5)])
    with pytest.raises(AssertionError):
        io.ComposeDataset([Stream(4)])
    assert list(io.ChainDataset([Stream(2), Stream(3)])) == [0, 1, 0, 1, 2]
    with pytest.raises(AssertionError):
        io.ChainDataset([Count(2)])
    assert list(io.Subset(range(1, 4), [0, 2])) == [1, 3]
    assert list(io.Subset(range(1, 4), [1, 1])) == [2, 2]


def test_random_split():
    parts = io.random_split(range(10), [3, 7])
    assert [len(part) for part in parts] == [3, 7]
    assert sorted(list(parts[0]) + list(parts[1])) == list(range(10))
    with pytest.raises(ValueError):
        io.random_split(range(10), [3, 6])


def test_orders_of_one_seed():
    np.random.seed(7)
    assert list(io.RandomSampler(Count(8))) == RANDOM
    np.random.seed(7)
    assert list(io.RandomSampler(Count(8), replacement=True, num_samples=6)) == DRAWN
    np.random.seed(7)
    assert list(io.WeightedRandomSampler([0.1, 0.2, 0.3, 0.4], 6)) == WEIGHTED


def test_random_sampler_arguments():
    with pytest.raises(TypeError):
        io.RandomSampler(Count(8), replacement=1)
    with pytest.raises(ValueError):
        io.RandomSampler(Count(8), num_samples=3)
    with pytest.raises(ValueError):
        io.RandomSampler(Count(8), replacement=True, num_samples=0)
    sampler = io.RandomSampler(Count(8), replacement=True, num_samples=50)
    assert len(sampler) == 50 and set(sampler) <= set(range(8))
    assert list(io.RandomSampler(Count(100), generator=iter(range(60)))) == list(range(60))


def test_weighted_random_sampler():
    weights = np.zeros(20, "float32")
    weights[3:8] = np.random.random(5) + 0.1
    drawn = list(io.WeightedRandomSampler(weights, 5, replacement=False))
    assert sorted(drawn) == [3, 4, 5, 6, 7]
    assert len(io.WeightedRandomSampler([0.0, 1.0], 3)) == 3
    assert list(io.WeightedRandomSampler([0.0, 1.0], 3)) == [1, 1, 1]
    rows = io.WeightedRandomSampler(np.array([[1.0, 0, 0], [0, 0, 2.0]]), 2)
    assert len(rows) == 4 and list(rows) == [0, 0, 2, 2]
    for bad in (np.zeros(4), -np.ones(4), np.array([1.0, np.inf]), np.array([1.0, np.nan])):
        with pytest.raises(AssertionError):
            list(io.WeightedRandomSampler(bad, 1))
    for arguments in ((2.3, True), (-1, True), (5, 5)):
        with pytest.raises(ValueError):
            io.WeightedRandomSampler(weights, *arguments)


@pytest.mark.parametrize("drop_last", [False, True])
def test_batch_sampler(drop_last):
    batches = io.BatchSampler(Count(10), batch_size=4, drop_last=drop_last)
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(batches) == expected[: 2 if drop_last else 3]
    assert len(batches) == len(list(batches))
    same = io.BatchSampler(sampler=io.SequenceSampler(Count(10)), batch_size=4, drop_last=drop_last)
    assert list(same) == list(batches)
    with pytest.raises(AssertionError):
        io.BatchSampler(sampler=io.RandomSampler(Count(10)), shuffle=True)
    with pytest.raises(AssertionError):
        io.BatchSampler(Count(10), batch_size=0)


def test_distributed_batch_sampler():
    ranks = [io.DistributedBatchSampler(Count(10), 2, num_replicas=3, rank=r) for r in range(3)]
    assert [list(rank) for rank in ranks] == [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [0, 1]]]
    shuffled = io.DistributedBatchSampler(Count(10), 4, num_replicas=2, rank=1, shuffle=True)
    first = list(shuffled)
    three = [io.DistributedBatchSampler(Count(10), 2, num_replicas=3, rank=r, shuffle=True) for r in range(3)]
    assert [list(rank) for rank in three] == [[[6, 1], [1, 7]], [[4, 0], [9, 3]], [[2, 8], [0, 5]]]
    shuffled.set_epoch(0)
    assert list(shuffled) == first
    assert list(shuffled) != first
    small = [io.DistributedBatchSampler(Count(1), 2, num_replicas=3, rank=r) for r in range(3)]
    assert [list(rank) for rank in small] == [[[0]], [[0]], [[0]]]
