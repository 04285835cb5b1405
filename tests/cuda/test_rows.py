"""Sums of rows with repeated ids: runs of equal ids over several blocks of a launch."""

import numpy as np
import paddle
import pytest
from paddle import _core

RNG = np.random.default_rng(0)
IDS = {
    "few ids": RNG.integers(0, 5, 200),
    "one id": np.full(100, 3),
    "many ids": RNG.integers(0, 50, 333),
    "runs across blocks": np.repeat([1, 4, 2], [31, 64, 33]),
    "runs of whole blocks": np.repeat([0, 1], [32, 32]),
    "a single row": np.array([2]),
}


@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", IDS)
@pytest.mark.filterwarnings("error")
def test_gradients_of_repeated_ids(name, dtype, padding, shim):
    ids, found = IDS[name], []
    d = np.random.default_rng(4).normal(size=(ids.size, 7)).astype(dtype)
    for place in (paddle.CUDAPlace(0), paddle.CPUPlace()):
        table = paddle.to_tensor(np.zeros((50, 7), dtype), place=place, stop_gradient=False)
        rows = _core.ops.lookup_table_v2(table, paddle.to_tensor(ids, place=place), padding_idx=padding)
        (rows * paddle.to_tensor(d, place=place)).sum().backward()
        found.append(np.asarray(table.grad))
    tol = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(*found, rtol=tol, atol=tol)
    assert any(kernel.startswith("add_rows_across") for kernel in shim.started) == (ids.size > 32)
