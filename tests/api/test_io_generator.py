"""DataLoader.from_generator: batches from Python generators, read ahead by a thread or a process."""

import collections
import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle._basics.dtypes import VarType  # noqa: E402
from paddle.io import DataLoader  # noqa: E402

Feed = collections.namedtuple("Feed", "name shape dtype lod_level")
FEEDS = [Feed("x", (-1, 2), "float32", 0), Feed("y", (-1, 1), "int64", 0)]


def samples():
    for i in range(7):
        yield np.full(2, i, "float32"), np.int64([i])


def sample_lists():
    for start in (0, 3, 6):
        yield [(np.full(2, i, "float32"), np.int64([i])) for i in range(start, min(start + 3, 7))]


def batches():
    for start in (0, 3, 6):
        rows = np.arange(start, min(start + 3, 7))
        yield rows[:, None].repeat(2, 1).astype("float32"), rows[:, None]


def labels(loader):
    return [y.numpy().ravel().tolist() for _, y in loader]


@pytest.fixture
def static():
    paddle.enable_static()
    yield
    paddle.disable_static()


@pytest.mark.parametrize("process", [False, True])
def test_three_sources(process):
    def make():
        return DataLoader.from_generator(capacity=2, return_list=True, use_multiprocess=process)

    expected = [[0, 1, 2], [3, 4, 5], [6]]
    loader = make().set_batch_generator(batches)
    assert labels(loader) == expected and labels(loader()) == expected
    assert labels(make().set_sample_list_generator(sample_lists)) == expected
    assert labels(make().set_sample_generator(samples, batch_size=3)) == expected[:2]
    assert labels(make().set_sample_generator(samples, batch_size=3, drop_last=False)) == expected
    first = next(iter(make().set_sample_generator(samples, batch_size=3)))
    assert first[0].shape == [3, 2] and first[0].dtype == VarType.FP32


@pytest.mark.parametrize("process", [False, True])
def test_error_of_the_source(process):
    def bad():
        yield from batches()
        raise ValueError("source broke")

    loader = DataLoader.from_generator(capacity=8, return_list=True, use_multiprocess=process)
    seen = []
    with pytest.raises(ValueError, match="source broke"):
        for x, _ in loader.set_batch_generator(bad):
            seen.append(x)
    assert len(seen) == 3


def test_killed_process():
    def bad():
        yield from batches()
        os.kill(os.getpid(), signal.SIGKILL)

    loader = DataLoader.from_generator(capacity=2, return_list=True, use_multiprocess=True)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(loader.set_batch_generator(bad))


def test_reads_at_most_capacity_ahead_and_ends_early():
    made = []

    def endless():
        while True:
            made.append(1)
            yield np.zeros(1), np.zeros(1)

    loader = DataLoader.from_generator(capacity=3, return_list=True).set_batch_generator(endless)
    before = threading.active_count()
    for _ in loader:
        break
    time.sleep(0.1)
    assert len(made) <= 5 and loader.queue.size() == 3
    del loader
    assert threading.active_count() <= before


def test_wrong_arguments():
    with pytest.raises(ValueError, match="capacity"):
        DataLoader.from_generator()
    for capacity, error in ((-1, ValueError), ("a", TypeError)):
        with pytest.raises(error):
            DataLoader.from_generator(capacity=capacity)
    with pytest.raises(AssertionError, match="not set yet"):
        iter(DataLoader.from_generator(capacity=1, return_list=True))
    with pytest.raises(AssertionError):
        DataLoader.from_generator(capacity=1, return_list=True).set_sample_generator(samples, batch_size=0)
    with pytest.warns(UserWarning, match="supports only iterable=True"):
        DataLoader.from_generator(capacity=1, return_list=True, iterable=False)

    def ragged():
        yield [[[1, 2], [3]]]

    with pytest.raises(TypeError, match="lists with different lengths"):
        list(DataLoader.from_generator(capacity=1, return_list=True).set_batch_generator(ragged))


def test_static(static):
    place = paddle.CPUPlace()

    def make(**options):
        return DataLoader.from_generator(feed_list=FEEDS, capacity=4, **options)

    first, *rest = list(make().set_batch_generator(batches, places=place))
    assert len(first) == 1 and first[0]["x"].shape() == [3, 2] and len(rest) == 2
    first = next(iter(make(return_list=True).set_sample_list_generator(sample_lists, places=[place])))
    assert first[0][1].shape() == [3, 1]

    def flat_samples():  # Python numbers are converted to the Variable's type and inner shape
        yield from (([1.0, 2.0], 5), ([3.0, 4.0], 6))

    only = next(iter(make().set_sample_generator(flat_samples, batch_size=2, places=place)))
    assert only[0]["y"].shape() == [2, 1] and np.array(only[0]["x"]).dtype == np.float32

    def sequences():
        yield [([[1.0, 2.0]], 5), ([[3.0, 4.0], [5.0, 6.0]], 6)]

    feeds = [Feed("x", (-1, 2), "float32", 1), FEEDS[1]]
    loader = DataLoader.from_generator(feed_list=feeds, capacity=4)
    fed = next(iter(loader.set_sample_list_generator(sequences, places=place)))[0]["x"]
    assert fed.shape() == [3, 2] and fed.recursive_sequence_lengths() == [[1, 2]]

    two = make().set_batch_generator(batches, places=[place, place])
    assert [len(group) for group in two] == [2]
    two = make(drop_last=False).set_batch_generator(batches, places=[place, place])
    assert [len(group) for group in two] == [2, 1]
    with pytest.raises(AssertionError):
        make().set_batch_generator(batches)
    with pytest.raises(Exception, match="feed_list"):
        DataLoader.from_generator(capacity=4)
