"""Operations that wait or take long release the GIL."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import paddle
import pytest
from paddle import _core

BIG = 1 << 26  # 256 MB of float32


class Counter:
    """A thread that counts; `longest` is the longest time in which it did not run."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.stop = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        last = time.perf_counter()
        while not self.stop:
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now

    def during(self, call: Callable[[], object]) -> tuple[float, float]:
        """Seconds of the call, and the longest pause in it."""
        time.sleep(0.02)
        self.longest, start = 0.0, time.perf_counter()
        result = call()
        seconds = time.perf_counter() - start
        del result
        return seconds, self.longest


@pytest.fixture
def counter() -> Iterator[Counter]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # otherwise a waiting thread is scheduled only after 5 ms
    made = Counter()
    yield made
    made.stop = True
    made.thread.join()
    sys.setswitchinterval(before)
    _core.empty_cache()


def calls(folder: str) -> dict[str, Callable[[], object]]:
    array = np.ones(BIG, "float32")
    tensor = paddle.to_tensor(array)

    def saved(protocol: int) -> None:
        paddle.save({"w": tensor}, f"{folder}/{protocol}.pdparams", pickle_protocol=protocol)

    def loaded(protocol: int) -> None:
        path = f"{folder}/{protocol}.pdparams"
        if not os.path.exists(path):
            array.view("uint8")[::2] = 200  # not ASCII: two bytes each in protocol 2
            saved(protocol)
        paddle.load(path)

    return {
        "full": lambda: paddle.full([4 * BIG], 2.0),
        "uniform": lambda: paddle.uniform([BIG // 2]),
        "randint": lambda: paddle.randint(0, 5, [BIG // 2]),
        "arange": lambda: paddle.arange(BIG),
        "expand": lambda: paddle.expand(paddle.ones([1]), [4 * BIG]),
        "outer sum": lambda: paddle.ones([1 << 14, 1]) + paddle.ones([1, 1 << 14]),
        "to_tensor": lambda: paddle.to_tensor(array),
        "numpy": lambda: tensor.numpy(),
        "assigned": lambda: tensor.__setitem__(slice(None), 3.0),
        "paddle.save, protocol 2": lambda: saved(2),
        "paddle.save, protocol 4": lambda: saved(4),
        "paddle.load, protocol 2": lambda: loaded(2),
        "paddle.load, protocol 4": lambda: loaded(4),
        "save": lambda: _core.ops.save(tensor, file_path=f"{folder}/saved"),
    }


@pytest.mark.parametrize("name", list(calls("")))
def test_other_threads_run_during_long_operations(counter, tmp_path, name):
    call = calls(str(tmp_path))[name]
    best = 1.0
    for _ in range(25):  # a busy machine suspends every thread occasionally
        seconds, longest = counter.during(call)
        best = min(best, longest / seconds)
        if best < 0.5:
            return
    raise AssertionError(f"{name}: other threads were blocked for {best:.0%} of the time")


def test_waiting_for_a_busy_generator_releases_the_gil(counter):
    drawing = threading.Thread(target=lambda: paddle.uniform([BIG * 2]))
    drawing.start()
    time.sleep(0.05)
    seconds, longest = counter.during(lambda: (paddle.uniform([2]), _core.get_rng_state()))
    drawing.join()
    assert longest < max(0.5 * seconds, 0.05)
