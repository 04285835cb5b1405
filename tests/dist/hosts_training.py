"""A multilayer perceptron trained data parallel, then further steps until an error.

    python hosts_training.py FOLDER RANKS

After STEPS steps a rank writes its parameters, then its number; the error that ends it goes to FOLDER/error.RANK.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn as nn
import paddle.nn.functional as F

STEPS, BATCH, WIDTH = 10, 64, 784


def part(step: int, rank: int, ranks: int) -> tuple[paddle.Tensor, paddle.Tensor]:
    rng = np.random.RandomState(step)
    x = rng.standard_normal([BATCH, WIDTH]).astype("float32")
    y = (x[:, :10].argmax(1)).astype("int64").reshape(-1, 1)
    return paddle.to_tensor(np.array_split(x, ranks)[rank]), paddle.to_tensor(np.array_split(y, ranks)[rank])


class Training:
    """The network and its optimizer; a `step` is on this rank's part of a batch."""

    def __init__(self, rank: int = 0, ranks: int = 1) -> None:
        paddle.seed(7)
        self.rank, self.ranks = rank, ranks
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
        self.model = paddle.DataParallel(self.network) if ranks > 1 else self.network
        self.sgd = paddle.optimizer.SGD(learning_rate=0.05, parameters=self.network.parameters())

    def step(self, number: int) -> None:
        x, y = part(number, self.rank, self.ranks)
        F.cross_entropy(self.model(x), y).backward()
        self.sgd.step()
        self.sgd.clear_grad()

    def parameters(self) -> dict[str, np.ndarray]:
        return {str(i): p.numpy() for i, p in enumerate(self.network.parameters())}


def main(folder: str) -> None:
    dist.init_parallel_env()
    training = Training(dist.get_rank(), dist.get_world_size())
    path = os.path.join(folder, f"pids.{training.rank}")
    for number in range(STEPS):
        training.step(number)
    np.savez(os.path.join(folder, f"trained.{training.rank}.npz"), **training.parameters())
    with open(path + ".new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(path + ".new", path)
    try:
        while True:
            training.step(0)
    except RuntimeError as e:
        with open(os.path.join(folder, f"error.{training.rank}"), "w") as f:
            f.write(f"{time.monotonic()} {e}")
        raise


if __name__ == "__main__":
    main(sys.argv[1])
