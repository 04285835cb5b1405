"""Ids out of range: each device has a word of its own."""

import contextlib

import numpy as np
import paddle
import pytest
from paddle import _core, _cuda
from shim import ShimMachine


class TwoDevices(ShimMachine):
    """The shim as two devices, whose memory is the same."""

    def device_count(self) -> int:
        return 2

    def on(self, device: int):
        assert device in (0, 1)
        return contextlib.nullcontext()


@pytest.fixture
def two(built):
    _cuda.use(TwoDevices(built.folder))
    yield _cuda.runtime()
    _cuda.use(None)


def lookup(device: int, ids: list[int]):
    place = paddle.CUDAPlace(device)
    table, ids = (paddle.to_tensor(np.asarray(a), place=place) for a in (np.ones((3, 2)), ids))
    return _core.ops.lookup_table_v2(table, ids)


def test_a_wait_for_another_device_does_not_raise(two):
    rows = lookup(0, [0, 2]), lookup(1, [5])
    two.wait(0)
    with pytest.raises(IndexError, match="lookup_table_v2: .*expected 0 <= id < 3, got 5"):
        two.wait(1)
    two.wait(1)  # the error is raised once
    assert [r.numpy().shape for r in rows] == [(2, 2), (1, 2)]


def test_a_read_raises_the_error_of_any_device(two):
    rows = lookup(0, [0]), lookup(1, [7])
    with pytest.raises(IndexError, match="got 7"):
        rows[0].numpy()
    assert rows[1].numpy().shape == (1, 2)
