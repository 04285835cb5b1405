"""Tests of a GPU beyond the cases of one operator: updates in place, arrays of more than 2^31 elements, NCCL with one
rank. The stand-in runs the last one too."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import paddle
import pytest
from fake_cupy import Cupy
from paddle import _core, _cuda
from paddle._cuda.comm import rings
from paddle._dispatch.device_step import sum_all
from test_route import optimizer_run

LARGE = 2**31 + 17


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


#: Operators on arrays of more than 2^31 elements: the value of each element, for elements that are 1.
UNARY: dict[str, tuple[Callable, float]] = {
    "relu": (lambda x: paddle.nn.functional.relu(x), 1.0),
    "scale": (lambda x: paddle.scale(x, 3.0), 3.0),
    "add": (lambda x: x + x, 2.0),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", UNARY)
def test_more_elements_than_an_int_counts(name, gpu):
    free, _ = gpu.xp.cuda.runtime.memGetInfo()
    if free < 6 * 2 * LARGE:
        pytest.skip(f"{free >> 30} GiB of device memory are free, {6 * 2 * LARGE >> 30} are needed")
    call, value = UNARY[name]
    paddle.set_device("gpu")
    try:
        out = call(paddle.full([LARGE], 1.0, "float16"))
        parts = [out[at : at + 8].numpy() for at in (0, 2**31 - 4, LARGE - 8)]
    finally:
        paddle.set_device("cpu")
    assert [p.tolist() for p in parts] == [[value] * 8] * 3


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
    """Each list of tensors is packed and summed by one collective."""
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=shape).astype("float32") for shape in ((3, 4), (5,), (200, 100), (1,))]
    rings.use(lambda ring: OneRank(), 0)
    paddle.set_device("gpu")
    try:
        a, b, c, d = (paddle.to_tensor(x, place=paddle.CUDAPlace(0)) for x in arrays)
        (e, f, g), (h,) = sum_all([[a, b, c], [d]], 0)
        for got, want in zip((e, f, g, h), arrays, strict=True):
            assert _core.device_of(got) == 0
            np.testing.assert_array_equal(got.numpy(), want)
        assert sum_all([[a, paddle.to_tensor(np.ones(2), place=paddle.CUDAPlace(0))]], 0) is None  # two data types
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
