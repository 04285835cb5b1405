"""Lists of Tensors as arguments: a call holds references to the items."""

from __future__ import annotations

import threading

import numpy as np
import paddle
from paddle import _core


class Fresh(list):
    """A list whose iterator creates Tensors without other references."""

    def __iter__(self):
        return iter([paddle.full([3], float(i)) for i in range(4)])


def test_items_created_by_the_iterator():
    want = np.repeat(np.arange(4, dtype="float32"), 3)
    given = Fresh([paddle.ones([3])] * 4)
    for _ in range(2000):
        got = _core.ops.concat(given, axis=0)
        junk = [paddle.full([3], -1.0) for _ in range(5)]
        np.testing.assert_array_equal(got.numpy(), want)
        del junk


def test_a_list_that_another_thread_empties():
    """During a large call other threads may remove the items from the list, for inputs and outputs."""
    current: list[list] = []
    stop = threading.Event()

    def empty() -> None:
        while not stop.is_set():
            for items in current:
                items.clear()
            paddle.full([4], -1.0)

    other = threading.Thread(target=empty)
    other.start()
    try:
        for _ in range(50):
            parts = [paddle.full([1 << 15], float(i)) for i in range(8)]
            whole = paddle.concat(parts)
            del parts
            current[:] = [[paddle.full([1 << 15], float(i)) for i in range(8)]]
            try:
                again = _core.ops.concat(current[0], axis=0)
            except (RuntimeError, ValueError):
                continue  # it was empty before the call read it
            # As many items as the call read, all correct.
            np.testing.assert_array_equal(again.numpy(), whole.numpy()[: again.shape[0]])
            current[:] = [[paddle.zeros([1]) for _ in range(8)]]
            kept = list(current[0])
            try:
                _core.ops.split(whole, num=8, axis=0, Out=current[0])
            except (RuntimeError, ValueError):
                continue
            for i, part in enumerate(kept):
                if part.shape != [1]:
                    assert (part.numpy() == i).all()
    finally:
        stop.set()
        other.join()


def test_other_arguments():
    for wrong in ([paddle.ones([1]), 1], (x for x in [paddle.ones([1])]), 3, [None]):
        try:
            _core.ops.concat(wrong, axis=0)
        except ValueError as error:
            assert "input 'X' must be a Tensor, got" in str(error)
        else:
            raise AssertionError(wrong)
