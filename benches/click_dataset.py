"""A click model trained from MultiSlot text with Hogwild threads, alternately here and on Paddle 1.8.5.

    python benches/click_dataset.py [--theirs PYTHON_WITH_1.8.5] [--rounds 3] [--samples 40000] [--threads 1 2]

26 categories and 13 numbers a sample, as in Criteo's data, generated from a seed; embeddings of 16 with sparse
gradients, layers of 256 and 128, SGD. Prints MB/s of `load_into_memory` and samples/s of `train_from_dataset`, medians
of the rounds, by threads: of reading and of training. Both run on as many cores as threads. (This file runs on Python
3.7.)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROWS, DIM, FIELDS, DENSE, BATCH = 100000, 16, 26, 13, 128


def write(path, samples):
    """The text of so many samples: of each slot its length and values."""
    numbers = random.Random(0)
    with open(path, "w") as f:
        for _ in range(samples):
            ids = [numbers.randrange(ROWS) for _ in range(FIELDS)]
            line = ["1 %d" % i for i in ids] + ["13"] + ["%.4f" % numbers.random() for _ in range(DENSE)]
            f.write(" ".join(line + ["1 %d" % (ids[0] % 2)]) + "\n")


def child(folder, threads, epochs):
    from paddle import fluid

    ids = [fluid.data("c%d" % i, [None, 1], "int64", lod_level=1) for i in range(FIELDS)]
    dense = fluid.data("dense", [None, DENSE], "float32")
    label = fluid.data("label", [None, 1], "int64")
    table = fluid.ParamAttr(name="table")
    rows = [fluid.embedding(i, [ROWS, DIM], is_sparse=True, param_attr=table) for i in ids]
    pooled = [fluid.layers.sequence_pool(fluid.layers.reshape(row, [-1, DIM]), "sum") for row in rows]
    x = fluid.layers.concat(pooled + [dense], axis=1)
    for width in (256, 128):
        x = fluid.layers.fc(x, width, act="relu")
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(x, 2), label))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_batch_size(BATCH)
    dataset.set_thread(threads)
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    dataset.set_filelist(files)
    dataset.set_use_var(ids + [dense, label])
    dataset.set_pipe_command("cat")
    begin = time.perf_counter()
    dataset.load_into_memory()
    loading, samples = time.perf_counter() - begin, dataset.get_memory_data_size()
    exe.train_from_dataset(fluid.default_main_program(), dataset, thread=threads)
    begin = time.perf_counter()
    for _ in range(epochs):
        exe.train_from_dataset(fluid.default_main_program(), dataset, thread=threads)
    rate = epochs * samples / (time.perf_counter() - begin)
    print("found " + json.dumps([sum(map(os.path.getsize, files)) / 1e6 / loading, rate]))


def job(python, folder, threads, epochs):
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(everything)[:threads])  # inherited by the child
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or python == sys.executable}
    env.update(OMP_NUM_THREADS="1", CPU_NUM="1")
    command = [python, os.path.abspath(__file__), "--child", folder, "--threads", str(threads), "--epochs", str(epochs)]
    try:
        # 1.8.5 writes a description of its trainers into the folder of the data.
        at = os.path.dirname(folder)
        done = subprocess.run(command, cwd=at, capture_output=True, env=env, timeout=600, check=False)
    finally:
        os.sched_setaffinity(0, everything)
    said = [line for line in done.stdout.decode().splitlines() if line.startswith("found ")]
    if done.returncode or not said:
        raise SystemExit("%s failed: %s" % (python, done.stderr.decode()[-2000:]))
    return json.loads(said[0][6:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--theirs", help="a Python that has Paddle 1.8.5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=40000)
    parser.add_argument("--epochs", type=int, default=2, help="trainings that are timed, after one that is not")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.threads[0], args.epochs)
        return
    pythons = [sys.executable] + [args.theirs] * bool(args.theirs)
    with tempfile.TemporaryDirectory() as made:
        folder = os.path.join(made, "data")
        os.mkdir(folder)
        for part in range(2):
            write(os.path.join(folder, "part%d" % part), args.samples // 2)
        found = {(p, n): [] for n in args.threads for p in pythons}
        for _ in range(args.rounds):
            for (python, threads), runs in found.items():
                runs.append(job(python, folder, threads, args.epochs))
    print("| threads | | loading, MB/s | training, samples/s |\n|---|---|---|---|")
    for (python, threads), runs in found.items():
        loading, rate = (statistics.median(run[i] for run in runs) for i in range(2))
        print("| %d | %s | %.1f | %.0f |" % (threads, "here" if python == sys.executable else "1.8.5", loading, rate))


if __name__ == "__main__":
    main()
