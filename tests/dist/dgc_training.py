"""A linear model trained with fleet's `dgc`, data parallel; messages are files, whose sizes are counted.

python -m paddle.distributed.launch --nproc_per_node 2 dgc_training.py OUT dgc|momentum
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
from paddle import _core, fluid

SIZE, BATCH, STEPS, RATE, MOMENTUM, BEGIN = 130, 8, 6, 0.5, 0.9, 2
SPARSITY = [0.9, 0.99]


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def batch(step: int, ranks: int) -> dict[str, np.ndarray]:
    return {"x": numbers(10 + step, ranks * BATCH, SIZE), "y": numbers(40 + step, ranks * BATCH, SIZE)}


def model() -> Any:
    """The loss of a linear model, with a parameter w large enough for compression."""
    x, y = fluid.data("x", [None, SIZE]), fluid.data("y", [None, SIZE])
    start = fluid.initializer.NumpyArrayInitializer(numbers(1, SIZE, SIZE))
    made = fluid.layers.fc(x, SIZE, param_attr=fluid.ParamAttr(name="w", initializer=start), bias_attr=False)
    return fluid.layers.mean(fluid.layers.square_error_cost(made, y))


class Files:
    """A group's messages as files of a folder (see rust/py/dist/transport.rs)."""

    name = "files"
    sent_bytes = 0

    def __init__(self, folder: Path, number: int, members: list[int]) -> None:
        self._folder, self._number, self._members = folder, number, members
        self._me = int(os.environ["PADDLE_TRAINER_ID"])
        self._counts: dict[tuple[int, int], int] = {}

    def _path(self, of: int, to: int) -> Path:
        return self._folder / f"{self._number}.{of}.{to}.{self._counts.get((of, to), 0)}"

    def _next(self, of: int, to: int) -> None:
        self._counts[of, to] = self._counts.get((of, to), 0) + 1

    def send(self, to: int, message: bytes) -> None:
        pair = self._me, self._members[to]
        path = self._path(*pair)
        path.with_suffix(".part").write_bytes(message)
        path.with_suffix(".part").rename(path)
        self._next(*pair)
        Files.sent_bytes += len(message)

    def sent(self, to: int) -> bool:
        return True

    def receive(self, of: int) -> bytearray | None:
        pair = self._members[of], self._me
        try:
            found = bytearray(self._path(*pair).read_bytes())
        except FileNotFoundError:
            return None
        self._path(*pair).unlink()
        self._next(*pair)
        return found


def main() -> None:
    out, kind = sys.argv[1:]
    folder = Path(out).with_name("messages")
    folder.mkdir(exist_ok=True)
    _core.dist.go_over(lambda number, members: Files(folder, number, members))
    paddle.enable_static()
    fleet.init(is_collective=True)
    loss = model()
    strategy = fleet.DistributedStrategy()
    if kind == "dgc":
        strategy.dgc = True
        strategy.dgc_configs = {"rampup_begin_step": BEGIN, "rampup_step": 2, "sparsity": SPARSITY}
    fleet.distributed_optimizer(fluid.optimizer.Momentum(RATE, MOMENTUM), strategy).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    losses, sent = [], []
    rank, ranks = fleet.worker_index(), fleet.worker_num()
    for step in range(STEPS):
        feed = {k: np.split(v, ranks)[rank] for k, v in batch(step, ranks).items()}
        before = Files.sent_bytes
        losses.append(float(exe.run(feed=feed, fetch_list=[loss])[0].mean()))
        sent.append(Files.sent_bytes - before)
    w = np.array(fluid.global_scope().find_var("w").get_tensor()).tolist()
    with open(f"{out}.{rank}", "w") as f:
        json.dump({"losses": losses, "sent": sent, "w": w, "meta": fleet._get_applied_meta_list()}, f)


if __name__ == "__main__":
    main()
