"""Samples per second of two processes together with one thread each, over one process with one thread.

    python benches/bench_parallel.py [--seconds 5] [--rounds 3] [--processes 2]

LeNet and a multilayer perceptron (batches of 128). Single and parallel runs alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

BATCH = 128


def child(kind: str, seconds: float) -> None:
    import numpy as np
    import paddle
    import paddle.distributed as dist
    import paddle.nn as nn
    import paddle.nn.functional as F

    world = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
    if world > 1:
        dist.init_parallel_env()
    rng = np.random.RandomState(dist.get_rank())
    if kind == "lenet":
        model = nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.Linear(120, 84),
            nn.Linear(84, 10),
        )
        x = rng.uniform(size=[BATCH, 1, 28, 28])
    else:
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        x = rng.uniform(size=[BATCH, 784])
    x, y = paddle.to_tensor(x.astype("float32")), paddle.to_tensor(rng.randint(0, 10, [BATCH, 1]).astype("int64"))
    if world > 1:
        model = paddle.DataParallel(model)
    sgd = paddle.optimizer.SGD(learning_rate=0.01, parameters=model.parameters())

    def step() -> None:
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        sgd.clear_grad()

    for _ in range(5):
        step()
    flag = paddle.zeros([1])
    if world > 1:
        dist.barrier()
    begin, steps = time.perf_counter(), 0
    while True:
        for _ in range(10):
            step()
        steps += 10
        flag[0] = float(time.perf_counter() - begin > seconds)
        if world > 1:
            dist.all_reduce(flag, dist.ReduceOp.MAX)
        if float(flag):
            break
    print(json.dumps({"steps": steps, "seconds": time.perf_counter() - begin}))


def run(kind: str, world: int, seconds: float) -> float:
    """Samples per second of all processes together."""
    from paddle import _core
    from paddle.distributed.launch.cores import divide

    # One core and one thread for each process, as the launcher divides them, and for the single process.
    everything = os.sched_getaffinity(0)
    cores = divide(max(world, len(everything)))
    token = _core.dist.fresh_token()
    store = _core.dist.Store.host("127.0.0.1:0", "bench", token)
    children = []
    for rank in range(world):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PADDLE_TRAINERS_NUM": str(world)}
        if world > 1:
            env |= {
                "PADDLE_TRAINER_ID": str(rank),
                "PADDLE_MASTER": store.address,
                "OAR_JOB_TOKEN": token.hex(),
                "OAR_JOB_NAME": "bench",
            }
        command = [sys.executable, os.path.abspath(__file__), "--child", kind, "--seconds", str(seconds)]
        if cores[rank]:
            os.sched_setaffinity(0, cores[rank])  # inherited by the child
        children.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        os.sched_setaffinity(0, everything)
    rate = 0.0
    for process in children:
        found = json.loads(process.communicate()[0].splitlines()[-1])
        rate += found["steps"] * BATCH / found["seconds"]
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--child", choices=["lenet", "mlp"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args.seconds)
    for kind in ("lenet", "mlp"):
        ratios = []
        for _ in range(args.rounds):
            one, many = run(kind, 1, args.seconds), run(kind, args.processes, args.seconds)
            ratios.append(many / one)
            print(f"{kind}: 1 process {one:.0f} samples/s, {args.processes} {many:.0f}, ratio {ratios[-1]:.2f}")
        print(f"{kind}: median ratio {sorted(ratios)[len(ratios) // 2]:.2f}")


if __name__ == "__main__":
    main()
