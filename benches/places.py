"""Samples per second of ParallelExecutor over two CPU places, over one place; a core for each place.

    python benches/places.py [--seconds 4] [--rounds 3] [--places 2]

LeNet and the multilayer perceptron (Adam), with batches of 128 for each place, and with batches of
128 that the places share. Single and parallel runs alternate, each in a process of its own; kernels use one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

BATCH = 128


def lenet(x):
    import paddle.static.nn as nn
    from paddle.fluid import layers

    x = layers.pool2d(nn.conv2d(x, 6, 3, padding=1, act="relu"), 2, "max", 2)
    x = layers.pool2d(nn.conv2d(x, 16, 5, act="relu"), 2, "max", 2)
    return nn.fc(nn.fc(nn.fc(x, 120), 84), 10)


def mlp(x):
    import paddle.static.nn as nn

    return nn.fc(nn.fc(nn.fc(x, 512, activation="relu"), 512, activation="relu"), 10)


#: network and shape of a sample
MODELS = {"lenet": (lenet, (1, 28, 28)), "mlp": (mlp, (784,))}


def child(name: str, batch: int, seconds: float) -> None:
    import numpy as np
    import paddle
    from paddle import fluid

    paddle.enable_static()
    network, shape = MODELS[name]
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, *shape], "float32")
        y = fluid.data("y", [None, 1], "int64")
        loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(network(x), y))
        fluid.optimizer.Adam(1e-5).minimize(loss)
    fluid.Executor(fluid.CPUPlace()).run(startup)
    executor = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main)
    rng = np.random.RandomState(0)
    feed = {"x": rng.standard_normal((batch, *shape)).astype("float32"), "y": rng.randint(0, 10, [batch, 1])}
    for _ in range(20):
        executor.run([loss.name], feed=feed)
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        executor.run([loss.name], feed=feed)
        steps += 1
    print(json.dumps({"rate": steps * batch / (time.perf_counter() - begin)}))


def run(name: str, places: int, batch: int, seconds: float) -> float:
    """Samples per second of a process with that number of places."""
    everything = os.sched_getaffinity(0)
    command = [sys.executable, os.path.abspath(__file__), "--child", name, "--batch", str(batch)]
    os.sched_setaffinity(0, sorted(everything)[:places])  # inherited by the child
    try:
        done = subprocess.run(
            [*command, "--seconds", str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "CPU_NUM": str(places)},
        )
    finally:
        os.sched_setaffinity(0, everything)
    return json.loads(done.stdout.splitlines()[-1])["rate"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--places", type=int, default=2)
    parser.add_argument("--batch", type=int, default=BATCH, help=argparse.SUPPRESS)
    parser.add_argument("--child", choices=sorted(MODELS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args.batch, args.seconds)
    for name in MODELS:
        for share, batch in (("for each place", BATCH * args.places), ("shared", BATCH)):
            ratios = []
            for _ in range(args.rounds):
                one, many = run(name, 1, BATCH, args.seconds), run(name, args.places, batch, args.seconds)
                ratios.append(many / one)
                print(
                    f"{name}, {BATCH} {share}: 1 place {one:.0f} samples/s, {args.places} {many:.0f}, "
                    f"ratio {ratios[-1]:.2f}",
                    flush=True,
                )
            print(f"{name}, {BATCH} {share}: median ratio {sorted(ratios)[len(ratios) // 2]:.2f}")


if __name__ == "__main__":
    main()
