"""A click model on 2 parameter servers and 2 trainers, compared with a single process.

    python examples/click_model.py [--mode sync|async] [--rows 4000] [--passes 3]

Lines have Criteo's columns (a label, 13 numbers, 26 words, tabs between); they are made with a seed, so that nothing is
downloaded. Every process runs this script; TRAINING_ROLE, set by paddle.distributed.launch, is its role.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import paddle
import paddle.fluid as fluid

NUMBERS, WORDS, ROWS, WIDTH, BATCH = 13, 26, 20000, 8, 64


def write_lines(path: str, count: int) -> None:
    """Clicks that depend on some of the numbers and words."""
    r = np.random.RandomState(7)
    taste = r.normal(0, 1.2, (4, 50))
    with open(path, "w") as f:
        for _ in range(count):
            numbers = r.poisson(3, NUMBERS)
            words = r.randint(0, 50, WORDS)
            score = sum(taste[k, words[k]] for k in range(4)) + 0.2 * (numbers[0] - 3)
            label = int(r.rand() < 1 / (1 + np.exp(-score)))
            texts = (f"{k:02x}{w:06x}" for k, w in enumerate(words))
            f.write("\t".join([str(label), *map(str, numbers), *texts]) + "\n")


def read_lines(path: str) -> dict[str, np.ndarray]:
    labels, numbers, ids = [], [], []
    with open(path) as f:
        for line in f:
            label, *rest = line.rstrip("\n").split("\t")
            labels.append([float(label)])
            numbers.append([np.log1p(float(v or 0)) for v in rest[:NUMBERS]])
            ids.append([[zlib.crc32(f"{k}:{v}".encode()) % ROWS] for k, v in enumerate(rest[NUMBERS:])])
    floats = {"label": np.array(labels, "float32"), "numbers": np.array(numbers, "float32")}
    return {**floats, "ids": np.array(ids, "int64")}


def build():
    """Loss and probability of a click: a table of words and two layers."""
    ids = fluid.layers.data("ids", [WORDS, 1], dtype="int64")
    numbers = fluid.layers.data("numbers", [NUMBERS], dtype="float32")
    label = fluid.layers.data("label", [1], dtype="float32")
    table = fluid.ParamAttr(name="words", initializer=fluid.initializer.Constant(0.02))
    words = fluid.layers.embedding(ids, [ROWS, WIDTH], is_sparse=True, param_attr=table)
    x = fluid.layers.concat([fluid.layers.reshape(words, [-1, WORDS * WIDTH]), numbers], axis=1)
    weights = np.random.RandomState(1).uniform(-0.05, 0.05, (WORDS * WIDTH + NUMBERS, 32)).astype("float32")
    first = fluid.ParamAttr(name="first", initializer=fluid.initializer.NumpyArrayInitializer(weights))
    x = fluid.layers.fc(x, 32, act="tanh", param_attr=first)
    weights = np.random.RandomState(2).uniform(-0.2, 0.2, (32, 1)).astype("float32")
    last = fluid.ParamAttr(name="last", initializer=fluid.initializer.NumpyArrayInitializer(weights))
    score = fluid.layers.fc(x, 1, param_attr=last)
    loss = fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(score, label))
    return loss, fluid.layers.sigmoid(score)


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The share of pairs of a click and none that are in order."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    ones = labels > 0.5
    n = int(ones.sum())
    return float((ranks[ones].sum() - n * (n + 1) / 2) / (n * (len(labels) - n)))


def train(executor, program, fetch, data, mine: slice, passes: int, batch: int) -> dict[str, float]:
    """Mean loss and AUC of the last pass; predictions precede the update by the same batch."""
    count = len(data["label"]) // (2 * BATCH) * 2 * BATCH
    for _ in range(passes):
        losses, scores, labels = [], [], []
        for at in range(0, count, 2 * BATCH):
            feed = {name: values[at : at + 2 * BATCH][mine] for name, values in data.items()}
            loss, score = executor.run(program, feed=feed, fetch_list=fetch)
            losses.append(float(np.asarray(loss).mean()))
            scores.append(np.asarray(score).ravel())
            labels.append(feed["label"].ravel())
    return {"loss": float(np.mean(losses)), "auc": auc(np.concatenate(scores), np.concatenate(labels))}


def role(args: argparse.Namespace) -> dict[str, float] | None:
    """Runs the role that the environment gives to this process."""
    paddle.enable_static()
    loss, score = build()
    fluid.optimizer.Adam(0.003).minimize(loss)
    executor = fluid.Executor(fluid.CPUPlace())
    kind = os.environ.get("TRAINING_ROLE", "ALONE")
    if kind == "ALONE":
        executor.run(fluid.default_startup_program())
        main = fluid.default_main_program()
        return train(executor, main, [loss, score], read_lines(args.data), slice(None), args.passes, 2 * BATCH)
    servers, sync = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"], args.mode == "sync"
    index = int(os.environ.get("PADDLE_TRAINER_ID", 0))
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = sync
    t = fluid.DistributeTranspiler(config)
    t.transpile(index, pservers=servers, trainers=int(os.environ["PADDLE_TRAINERS_NUM"]), sync_mode=sync)
    if kind == "PSERVER":
        main, startup = t.get_pserver_programs(f"{os.environ['POD_IP']}:{os.environ['PADDLE_PORT']}")
        executor.run(startup)
        executor.run(main)  # until all trainers are complete
        return None
    program = t.get_trainer_program()
    executor.run(fluid.default_startup_program())
    mine = slice(index * BATCH, (index + 1) * BATCH)
    found = train(executor, program, [loss, score], read_lines(args.data), mine, args.passes, BATCH)
    executor.close()
    return found


def start(folder: str, args: argparse.Namespace, *launcher: str) -> list[dict[str, float]]:
    """Runs this script as one process or by the launcher; the results of each trainer."""
    out = os.path.join(folder, "found")
    for old in os.listdir(folder):
        if old.startswith("found"):
            os.remove(os.path.join(folder, old))
    rest = ["--mode", args.mode, "--passes", str(args.passes), "--data", args.data, "--out", out]
    command = [sys.executable, *launcher, os.path.abspath(__file__), *rest]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    files = sorted(f for f in os.listdir(folder) if f.startswith("found"))
    return [json.load(open(os.path.join(folder, f))) for f in files]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mode", choices=("sync", "async"), default="sync", help="steps in common, or each by itself")
    p.add_argument("--rows", type=int, default=4000, help="lines of data (default: %(default)s)")
    p.add_argument("--passes", type=int, default=3, help="times through them (default: %(default)s)")
    p.add_argument("--data", help=argparse.SUPPRESS)
    p.add_argument("--out", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.out:
        found = role(args)
        if found:
            with open(args.out + os.environ.get("PADDLE_TRAINER_ID", ""), "w") as f:
                json.dump(found, f)
        return
    with tempfile.TemporaryDirectory() as folder:
        args.data = os.path.join(folder, "clicks.txt")
        write_lines(args.data, args.rows)
        alone = start(folder, args)
        launcher = ("-m", "paddle.distributed.launch", "--server_num=2", "--worker_num=2", "--log_dir=logs")
        trainers = start(folder, args, *launcher)
    mean = {k: sum(t[k] for t in trainers) / len(trainers) for k in trainers[0]}
    print(f"one process:               loss {alone[0]['loss']:.4f}   AUC {alone[0]['auc']:.4f}")
    print(f"2 servers, 2 trainers:     loss {mean['loss']:.4f}   AUC {mean['auc']:.4f}   ({args.mode})")


if __name__ == "__main__":
    main()
