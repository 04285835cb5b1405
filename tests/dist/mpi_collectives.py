"""Collectives of four ranks over any transport: results go to OUT.RANK.npz. Started by `mpirun` or the launcher."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import paddle
import paddle.distributed as dist


def value(rank: int, size: int, kind: str = "float32") -> np.ndarray:
    return np.random.RandomState(rank).normal(size=size).astype(kind)


def groups(me: int) -> dict[str, np.ndarray]:
    """Collectives in a group of some ranks in another order, and in a group over MPI."""
    found = {}
    pair = dist.new_group([2, 0])
    if me in (0, 2):
        x = paddle.to_tensor(value(me, 9))
        dist.all_reduce(x, group=pair)
        found["pair"] = x.numpy()
    return found


def collectives(me: int, world: int) -> dict[str, np.ndarray]:
    found: dict[str, Any] = {}
    for size in (3, 70_001):
        for op in ("SUM", "MAX", "PROD"):
            x = paddle.to_tensor(value(me, size))
            dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
            found[f"all_reduce {op} {size}"] = x.numpy()
        x = paddle.to_tensor(value(me, size))
        dist.reduce(x, dst=1)
        found[f"reduce {size}"] = x.numpy() if me == 1 else np.zeros(1)
        x = paddle.to_tensor(value(me, size))
        dist.broadcast(x, src=2)
        found[f"broadcast {size}"] = x.numpy()
        parts: list[Any] = []
        dist.all_gather(parts, paddle.to_tensor(value(me, size)))
        found[f"all_gather {size}"] = np.stack([p.numpy() for p in parts])
        x = paddle.zeros([size])
        dist.scatter(x, [paddle.to_tensor(value(10 + r, size)) for r in range(world)] if me == 0 else None, src=0)
        found[f"scatter {size}"] = x.numpy()
        x = paddle.zeros([size])
        if me < world - 1:
            dist.send(paddle.to_tensor(value(me, size)), me + 1)
        if me:
            dist.recv(x, me - 1)
        found[f"send {size}"] = x.numpy()
    dist.barrier()
    return found


def main() -> None:
    dist.init_parallel_env()
    me, world = dist.get_rank(), dist.get_world_size()
    found = collectives(me, world) | groups(me)
    found["way"] = np.array(paddle._core.dist.get_group(0).transport)
    np.savez(f"{sys.argv[1]}.{me}.npz", **found)


if __name__ == "__main__":
    main()
