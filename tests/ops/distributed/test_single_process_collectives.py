"""Collective operators in a single process; tests/dist covers several."""

import numpy as np
import pytest
from case import case, real, table
from paddle import _core

test_streams = table(
    case("c_sync_calc_stream", [real(2, 3)], expected=lambda x: x, dtypes="float32", static=False),
    case("c_sync_comm_stream", [[real(2, 3), real(0)]], expected=lambda xs: xs, static=False),
)
NEEDS_A_RING = "c_allreduce_sum c_allreduce_max c_reduce_sum c_broadcast barrier".split()
ALONE = "c_allreduce_sum c_reduce_prod c_broadcast allreduce broadcast barrier".split()


@pytest.mark.parametrize("op", NEEDS_A_RING)
def test_no_ring(op) -> None:
    x = _core.Tensor(np.ones(3, "float32"))
    with pytest.raises(RuntimeError, match="no communicator"):
        getattr(_core.ops, op)(x, ring_id=71)
    np.testing.assert_array_equal(x.numpy(), [1, 1, 1])


@pytest.mark.parametrize("op", ALONE)
def test_ring_of_a_single_process(op) -> None:
    x = np.array([1, -2, 3], "float32")
    np.testing.assert_array_equal(getattr(_core.ops, op)(_core.Tensor(x)).numpy(), x)


def test_wrong_numbers_of_ranks() -> None:
    x = _core.Tensor(np.ones(3, "float32"))
    for op, attrs in (("c_allgather", {"nranks": 1}), ("c_reducescatter", {"nranks": 2}), ("c_scatter", {"nranks": 2})):
        with pytest.raises(ValueError, match="nranks"):
            getattr(_core.ops, op)(x, **attrs)
