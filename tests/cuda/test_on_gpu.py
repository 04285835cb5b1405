"""Tests of a GPU beyond the cases of one operator: updates in place, arrays of more than 2^31 elements, NCCL with one
rank. The stand-in runs the last one too."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle
import pytest
from fake_cupy import Cupy
from paddle import _core, _cuda
from paddle._cuda.comm import rings
from paddle._dispatch.device_step import join_sums, start_sum
from test_route import optimizer_run


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["sgd", "adam"])
def test_updates_in_place(op, dtype, gpu):
    got, want = (optimizer_run(op, where, dtype, False) for where in (paddle.CUDAPlace(0), paddle.CPUPlace()))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-6)


@pytest.mark.gpu
def test_an_update_keeps_its_memory(gpu):
    p, g, rate = (paddle.to_tensor(np.ones(3, "float32"), place=paddle.CUDAPlace(0)) for _ in range(3))
    at = _core.device_address(p)
    _core.ops.sgd(p, rate[0:1], g, ParamOut=p)
    assert _core.device_address(p) == at and p.numpy().tolist() == [0.0, 0.0, 0.0]


#: Rows of 8 elements: more than 2^31 in all.
ROWS = 2**28 + 3


def _embedding(x: Any) -> Any:
    """Rows of a table by ids made of x: row 0 but where x has other numbers."""
    table = paddle.to_tensor((np.arange(64).reshape(8, 8) / 8).astype("float16"), place=x.place)
    return paddle.nn.functional.embedding(paddle.cast(paddle.max(x, axis=1) * 2.0, "int64"), table)


def _gradient(call: Callable) -> Callable:
    def of(x: Any) -> Any:
        x.stop_gradient = False
        (g,) = paddle.grad(call(x), x, grad_outputs=paddle.full(x.shape, 2.0, "float16"))
        return g

    return of


def _affine(kind: Callable) -> Callable:
    return lambda x: kind(x, paddle.to_tensor((np.arange(8) / 8).astype("float16"), place=x.place))


#: Operators on more than 2^31 elements, float16 [ROWS, 8], whose row i is made of row i of x.
LARGE: dict[str, Callable] = {
    "relu": paddle.nn.functional.relu,
    "gelu": paddle.nn.functional.gelu,
    "scale": lambda x: paddle.scale(x, 3.0),
    "add": lambda x: x + x,
    "add of a row": _affine(lambda x, row: x + row),
    "multiplication by a column": lambda x: x * paddle.max(x, axis=1, keepdim=True),
    "gradient of relu": _gradient(paddle.nn.functional.relu),
    "softmax": paddle.nn.functional.softmax,
    "gradient of softmax": _gradient(paddle.nn.functional.softmax),
    "layer_norm": lambda x: paddle.nn.functional.layer_norm(x, 8),
    "cast": lambda x: paddle.cast(x, "int8"),
    "transpose": lambda x: paddle.transpose(paddle.transpose(x, [1, 0]), [1, 0]),
    "sum of rows": lambda x: paddle.sum(x, axis=1),
    "concat": lambda x: paddle.concat([x[: ROWS // 2], x[ROWS // 2 :]]) if x.shape[0] == ROWS else x,
    "where": lambda x: paddle.where(x > 0.5, x, x * 2.0),
    "embedding": _embedding,
}
#: the rows that differ from the others, which are 1: the first, those at element 2^31, the last
AT = (0, 2**28 - 1, 2**28, ROWS - 1)


def rows_of_large(call: Callable, rows: int, at: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The rows `at` of the result on the device, and those of the CPU from these rows alone."""
    given = np.random.default_rng(3).uniform(-1, 1, (len(at), 8)).astype("float16")
    want = call(paddle.to_tensor(given, place=paddle.CPUPlace())).numpy()
    paddle.set_device("gpu")
    try:
        x = paddle.full([rows, 8], 1.0, "float16")
        for i, row in zip(at, given, strict=True):
            x[i] = row
        out = call(x)
        assert str(out.place) == "CUDAPlace(0)" and out.shape[0] == rows
        return np.stack([out[i].numpy().reshape(want.shape[1:]) for i in at]), want
    finally:
        paddle.set_device("cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", LARGE)
def test_more_elements_than_an_int_counts(name, gpu):
    free, _ = gpu.xp.cuda.runtime.memGetInfo()
    if free < 60 << 30:
        pytest.skip(f"{free >> 30} GiB of device memory are free, 60 are needed")
    try:
        got, want = rows_of_large(LARGE[name], ROWS, AT)
    finally:
        gc.collect()
        paddle.device.cuda.empty_cache()
    np.testing.assert_allclose(got, want, rtol=4e-3, atol=4e-3)


@pytest.mark.gpu
def test_reductions_of_more_elements_than_an_int_counts(gpu):
    free, _ = gpu.xp.cuda.runtime.memGetInfo()
    if free < 60 << 30:
        pytest.skip(f"{free >> 30} GiB of device memory are free, 60 are needed")
    paddle.set_device("gpu")
    try:
        x = paddle.full([ROWS, 8], 1.0, "float16")
        for i in AT[1:]:
            x[i] = np.arange(8, dtype="float16") * (1 + i % 3)
        largest = max(7 * (1 + i % 3) for i in AT[1:])
        assert float(paddle.mean(x)) == 1.0 and float(paddle.max(x)) == largest and float(paddle.min(x)) == 0.0
        assert paddle.max(x, axis=0).numpy().tolist() == [max(1.0, largest / 7 * c) for c in range(8)]
        del x
    finally:
        paddle.set_device("cpu")
        gc.collect()
        paddle.device.cuda.empty_cache()


@pytest.mark.parametrize("name", LARGE)
def test_large_operators_on_few_rows(name, shim):
    got, want = rows_of_large(LARGE[name], 40, (0, 21, 22, 39))
    np.testing.assert_allclose(got, want, rtol=4e-3, atol=4e-3)


class OneRank:
    """The communication of a ring of one rank."""

    rank, world = 0, 1

    def share(self, value):
        return value

    def send_count(self, count, to):
        raise AssertionError("there is no other rank")

    recv_count = send_count

    def barrier(self):
        pass


def one_rank() -> None:
    """Collectives of one rank: each is the identity."""
    x = np.arange(6, dtype="float32")
    rings.use(lambda ring: OneRank(), 0)
    try:
        for op in ("c_allreduce_sum", "c_allreduce_max", "c_broadcast"):
            tensor = paddle.to_tensor(x, place=paddle.CUDAPlace(0))
            out = getattr(_core.ops, op)(tensor)
            assert _core.device_of(out) == 0 and out.numpy().tolist() == x.tolist(), op
        (out,) = _core.ops.c_sync_comm_stream([_core.ops.c_sync_calc_stream(tensor)])
        assert _core.device_of(out) == 0 and out.numpy().tolist() == x.tolist()
    finally:
        rings.use(None)


def buckets_of_one_rank() -> None:
    """Each bucket is packed and summed by one collective."""
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=shape).astype("float32") for shape in ((3, 4), (5,), (200, 100), (1,))]
    rings.use(lambda ring: OneRank(), 0)
    paddle.set_device("gpu")
    try:
        a, b, c, d = (paddle.to_tensor(x, place=paddle.CUDAPlace(0)) for x in arrays)
        sums = [*start_sum([a, b, c], 0), *start_sum([d], 0)]
        join_sums(sums)
        for got, want in zip(sums, arrays, strict=True):
            assert _core.device_of(got) == 0
            np.testing.assert_array_equal(got.numpy(), want)
        assert start_sum([a, paddle.to_tensor(np.ones(2), place=paddle.CUDAPlace(0))], 0) is None  # two data types
    finally:
        paddle.set_device("cpu")
        rings.use(None)


@pytest.mark.gpu
def test_nccl_of_one_rank(gpu):
    one_rank()
    buckets_of_one_rank()


@pytest.mark.filterwarnings("error:operator:RuntimeWarning")
@pytest.mark.parametrize("kind", [bytes, tuple])
def test_nccl_of_one_rank_on_the_stand_in(kind, built, tmp_path, monkeypatch):
    import fake_nccl

    monkeypatch.setattr(fake_nccl, "ID", kind)

    # Only an import binds cupy.cuda.nccl.
    cupy = Cupy(built)
    monkeypatch.setattr(_cuda.CupyMachine, "library", str(cupy.fake.path))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", fake_nccl)
    monkeypatch.setenv("FAKE_NCCL", str(tmp_path))
    fake_nccl.calls.clear()
    _cuda.use(_cuda.CupyMachine())
    try:
        one_rank()
        assert fake_nccl.calls == ["allReduce", "allReduce", "broadcast"]
        fake_nccl.calls.clear()
        buckets_of_one_rank()
    finally:
        _cuda.use(None)
    assert fake_nccl.calls == ["allReduce", "allReduce"]


def test_a_missing_nccl_is_named(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", None)
    with pytest.raises(RuntimeError, match="CuPy finds no NCCL here"):
        _cuda.CupyMachine().nccl()
