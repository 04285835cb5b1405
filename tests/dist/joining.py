"""Ranks that join and work together; started by tests of launch and spawn."""
from __future__ import annotations

import os
import signal
import sys

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
    """Rank 0 waits for rank 1, which waits for a file, until somebody asks what goes on."""
    total()
    open(os.path.join(folder, f"pids.{dist.get_rank()}"), "w").write(str(os.getpid()))
    if dist.get_rank() == 1:
        while not os.path.exists(os.path.join(folder, "stop")):
            signal.sigtimedwait([], 0.05)
    dist.barrier()


if __name__ == "__main__":
    found = globals()[sys.argv[1]](*sys.argv[2:])
    if found is not None:
        print("total", found)
