"""Collectives of CUDA Tensors over NCCL, on every rank of a job; a stand-in for CuPy where there is no GPU.

python -m paddle.distributed.launch --nproc_per_node 2 nccl_job.py fake|gpu
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_nccl
import numpy as np
import paddle
import paddle.distributed as dist
from fake_cupy import Cupy
from paddle import _cuda
from paddle._cuda.comm import rings
from paddle.distributed import nccl
from shim import ShimMachine

RANK, WORLD = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])
FAKE = sys.argv[1] == "fake"
PLACE: Any = None


def on_device(array: Any) -> Any:
    return paddle.to_tensor(np.asarray(array), place=PLACE)


def mine(rank: int = RANK, dtype: str = "float32") -> np.ndarray:
    return (np.arange(6).reshape(2, 3) + 10 * rank + 1).astype(dtype)


def called(function: str, what: Callable[[], Any]) -> Any:
    """The result of `what`; asserts that NCCL's function was called and no collective ran on the CPU."""
    fake_nccl.calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = what()
    assert not FAKE or function in fake_nccl.calls, (function, fake_nccl.calls)
    return found


def same(tensor: Any, array: Any) -> None:
    assert tensor.place == PLACE, tensor.place
    assert str(tensor.numpy().dtype) == str(np.asarray(array).dtype), tensor.numpy().dtype
    np.testing.assert_array_equal(tensor.numpy(), array)


def combined(group: Any) -> None:
    every = [mine(r) for r in range(WORLD)]
    kinds = dist.ReduceOp
    by = ((kinds.SUM, np.add), (kinds.MAX, np.maximum), (kinds.MIN, np.minimum), (kinds.PROD, np.multiply))
    for op, how in by:
        for dtype in ("float32", "float64", "int64", "float16"):
            total = every[0].astype(dtype)
            for one in every[1:]:
                total = how(total, one.astype(dtype))
            t = on_device(mine(dtype=dtype))
            assert called("allReduce", lambda t=t, op=op: dist.all_reduce(t, op, group)) is None
            same(t, total)
            t = on_device(mine(dtype=dtype))
            work = called("reduce", lambda t=t, op=op: dist.reduce(t, 1, op, group, sync_op=False))
            assert work.is_completed() and work.wait() is None
            same(t, total if RANK == 1 else mine(dtype=dtype))
    t = on_device(mine())
    called("allReduce", lambda: dist.all_reduce(t, dist.ReduceOp.AVG, group))
    same(t, np.mean(every, 0, dtype="float32"))


def moved(group: Any) -> None:
    for array in (mine(), mine() > 11, mine(dtype="int16")):
        t = on_device(array)
        called("broadcast", lambda t=t: dist.broadcast(t, 1, group))
        same(t, {"float32": mine(1), "bool": mine(1) > 11, "int16": mine(1, "int16")}[array.dtype.name])
    gathered: list = []
    called("allGather", lambda: dist.all_gather(gathered, on_device(mine()), group))
    for r, t in enumerate(gathered):
        same(t, mine(r))
    t = on_device(np.zeros((2, 3), "float32"))
    parts = [on_device(mine(5 + r)) for r in range(WORLD)] if RANK == 0 else None
    called("recv", lambda: dist.scatter(t, parts, 0, group))
    same(t, mine(5 + RANK))
    called("reduceScatter", lambda: dist.reduce_scatter(t, [on_device(mine(r)) for r in range(WORLD)], group=group))
    same(t, WORLD * mine())
    if RANK == 0:
        called("send", lambda: dist.send(on_device(mine()), 1, group))
    elif RANK == 1:
        t = on_device(np.zeros((2, 3), "float32"))
        called("recv", lambda: dist.recv(t, 0, group))
        same(t, mine(0))


def programs() -> None:
    """Operators of a Program, on the device."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [2, 3], "float32")
        y = x * 2.0
        dist.all_reduce(y)
        gathered: list = []
        dist.all_gather(gathered, y)
        dist.barrier()
    exe = paddle.static.Executor(PLACE)
    fake_nccl.calls.clear()
    total, again = exe.run(main, feed={"x": mine()}, fetch_list=[y, gathered[-1]])
    want = 2 * np.sum([mine(r) for r in range(WORLD)], 0)
    np.testing.assert_array_equal(total, want)
    np.testing.assert_array_equal(again, want)
    assert not FAKE or {"allReduce", "allGather"} <= set(fake_nccl.calls), fake_nccl.calls
    paddle.disable_static()


def data_parallel() -> None:
    """Parameters start with the values of rank 0, and gradients are averaged, by NCCL."""
    paddle.seed(RANK)
    model = called("broadcast", lambda: paddle.DataParallel(paddle.nn.Linear(3, 2)))
    weight = model.parameters()[0]
    start, gathered = weight.numpy(), []
    dist.all_gather(gathered, weight.detach())
    for t in gathered:
        same(t, start)
    x = on_device(np.full((4, 3), RANK + 1, "float32"))
    called("allReduce", lambda: model(x).mean().backward())
    assert not FAKE or fake_nccl.calls.count("allReduce") == 1, fake_nccl.calls  # one bucket
    mean = np.mean(np.arange(WORLD) + 1) / 2
    np.testing.assert_allclose(weight.grad, np.full((3, 2), mean), rtol=1e-6)
    paddle.optimizer.SGD(0.1, parameters=model.parameters()).step()
    assert weight.place == PLACE
    np.testing.assert_allclose(weight.numpy(), start - 0.1 * mean, rtol=1e-6)
    unused_on_a_rank()
    during_backward()


def during_backward() -> None:
    """Buckets are summed while backward computes the gradients of earlier layers, and a failed backward leaves none."""
    started, fails = [], []

    class Seen(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return paddle.tanh(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            started.append(fake_nccl.calls.count("allReduce"))
            if fails:
                raise ValueError("stops")
            return grad

    class Net(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = paddle.nn.Linear(3, 4), paddle.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.second(Seen.apply(self.first(x)))

    model = paddle.DataParallel(Net(), comm_buffer_size=1e-6, last_comm_buffer_size=1e-6)
    x = on_device(np.full((5, 3), RANK + 0.5, "float32"))
    with model.no_sync():
        model(x).mean().backward()
    own = [p.grad.copy() for p in model.parameters()]
    model.clear_gradients()
    for _ in range(2):
        called("allReduce", lambda: model(x).mean().backward())
        found = [p.grad.copy() for p in model.parameters()]
        for grad, mine in zip(found, own, strict=True):
            parts: list = []
            dist.all_gather(parts, on_device(mine))
            np.testing.assert_allclose(grad, np.mean([p.numpy() for p in parts], 0), rtol=1e-5, atol=1e-6)
        model.clear_gradients()
        assert not FAKE or started[-1] >= 2, started
        fails.append(1)
        try:
            model(x).mean().backward()
        except ValueError:
            fails.clear()
        assert not fails
        model.clear_gradients()


def unused_on_a_rank() -> None:
    """A parameter that one rank does not use has a zero gradient there."""

    class Two(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.never = (paddle.nn.Linear(3, 1, bias_attr=False) for _ in range(3))

        def forward(self, x: Any) -> Any:
            return self.first(x) if RANK else self.first(x) + self.second(x)

    model = paddle.DataParallel(Two())
    first, second, never = model.parameters()
    called("allReduce", lambda: model(on_device(np.ones((2, 3), "float32"))).sum().backward())
    np.testing.assert_allclose(first.grad, np.full((3, 1), 2.0), rtol=1e-6)
    np.testing.assert_allclose(second.grad, np.full((3, 1), 2.0 / WORLD), rtol=1e-6)
    assert never.grad is None


def refused(group: Any) -> None:
    """Types that NCCL does not reduce are reduced on the CPU and copied back."""
    t = on_device(mine(dtype="int16"))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        dist.all_reduce(t, group=group)
    assert any("c_allreduce_sum has no CUDA kernel" in str(w.message) for w in seen)
    same(t, np.sum([mine(r, "int16") for r in range(WORLD)], 0).astype("int16"))


def ended() -> None:
    """A destroyed group releases its communicator; one whose number was read keeps it."""
    group, kept = dist.new_group(backend="nccl"), dist.new_group(backend="nccl")
    numbers = group._number, kept.id
    for one in (group, kept):
        called("allReduce", lambda one=one: dist.all_reduce(on_device(mine()), group=one))
    assert set(numbers) <= set(rings._made)
    dist.barrier()
    del group, kept, one
    gc.collect()
    assert not rings.serves(numbers[0]) and rings.serves(numbers[1])
    assert numbers[0] not in rings._made and numbers[1] in rings._made


def main() -> None:
    global PLACE
    by_environment = os.environ.get("OAR_BACKEND") == "nccl"
    if FAKE:
        units = Path(os.environ["FAKE_NCCL"]) / f"units{RANK}"
        units.mkdir()
        cupy = Cupy(ShimMachine(units))
        # Only an import binds cupy.cuda.nccl.
        sys.modules |= {"cupy": cupy, "cupy.cuda.nccl": fake_nccl}  # type: ignore[dict-item]
        _cuda.CupyMachine.library = str(cupy.fake.path)
        _cuda.use(_cuda.CupyMachine())
        PLACE = paddle.CUDAPlace(0)
    else:
        PLACE = paddle.CUDAPlace(RANK)
    paddle.set_device(f"gpu:{PLACE.gpu_device_id()}")
    dist.init_parallel_env()
    group = 0 if by_environment else dist.new_group(backend="nccl")
    combined(group)
    moved(group)
    refused(group)
    if by_environment:
        data_parallel()
        programs()
    else:
        # A group created without NCCL does not use it, even if its number belonged to an NCCL group before.
        other = dist.new_group()
        rings.use(rings._make_exchange, other._number)
        nccl.group_of(other, None)
        fake_nccl.calls.clear()
        t = on_device(mine())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            dist.all_reduce(t, group=other)
        same(t, np.sum([mine(r) for r in range(WORLD)], 0))
        assert not fake_nccl.calls
        # The job's global group is unchanged.
        fake_nccl.calls.clear()
        t = on_device(mine())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            dist.all_reduce(t)
        same(t, np.sum([mine(r) for r in range(WORLD)], 0))
        assert not fake_nccl.calls
        ended()
    print("every collective is right")


if __name__ == "__main__":
    main()
