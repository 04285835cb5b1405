"""Ranks that join a job; started by tests of launch and spawn."""

from __future__ import annotations

import os
import signal
import sys
import time

import paddle
import paddle.distributed as dist


def total():
    """The sum of all ranks, each from 1."""
    dist.init_parallel_env()
    value = paddle.to_tensor([dist.get_rank() + 1.0])
    dist.all_reduce(value)
    return value.numpy().item()


def lose(how):
    """Rank 1 fails; the others wait for it in a barrier."""
    total()
    if dist.get_rank() == 1:
        if how == "raise":
            raise ValueError("fails on purpose")
        os.kill(os.getpid(), getattr(signal, how))
    dist.barrier()


def wait(folder):
    """Rank 0 waits for rank 1, which waits for a file: the state to report on SIGUSR1."""
    total()
    open(os.path.join(folder, f"pids.{dist.get_rank()}"), "w").write(str(os.getpid()))
    if dist.get_rank() == 1:
        while not os.path.exists(os.path.join(folder, "stop")):
            signal.sigtimedwait([], 0.05)
    dist.barrier()


def across(count="1000"):
    """Every collective over several hosts; the last output is the same on all ranks."""
    dist.init_parallel_env()
    rank, world, count = dist.get_rank(), dist.get_world_size(), int(count)
    total, last = world * (world + 1) / 2, world - 1

    def mine():
        return paddle.full([count], rank + 1.0)

    def holds(value, wanted):
        assert (value.numpy() == wanted).all(), (rank, wanted, value.numpy())

    for _ in range(3):
        x = mine()
        dist.all_reduce(x)
        holds(x, total)
        x = mine()
        dist.reduce(x, last)
        holds(x, total if rank == last else rank + 1)
        x = mine()
        dist.broadcast(x, last)
        holds(x, world)
        parts = []
        dist.all_gather(parts, mine())
        [holds(part, r + 1) for r, part in enumerate(parts)]
        x = mine()
        dist.reduce_scatter(x, [mine() for _ in range(world)])
        holds(x, total)
        x = mine()
        dist.scatter(x, [paddle.full([count], float(r)) for r in range(world)] if rank == 1 else None, 1)
        holds(x, rank)
        dist.barrier()
    hosts = []
    name = os.uname().nodename.encode()
    dist.all_gather(hosts, paddle.to_tensor(list(name.ljust(64, b"\0")), "int32"))
    return f"sums of {world} ranks on {len({bytes(h.numpy().tolist()) for h in hosts})} hosts"


def on_and_on(folder):
    """All-reduces until an error, which is written to a file."""
    total()
    path = os.path.join(folder, f"pids.{dist.get_rank()}")
    with open(path + ".new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(path + ".new", path)
    try:
        while True:
            dist.all_reduce(paddle.ones([100000]))
    except RuntimeError as e:
        with open(os.path.join(folder, f"error.{dist.get_rank()}"), "w") as f:
            f.write(f"{time.monotonic()} {e}")
        raise


if __name__ == "__main__":
    found = globals()[sys.argv[1]](*sys.argv[2:])
    if found is not None:
        print("total", found)
