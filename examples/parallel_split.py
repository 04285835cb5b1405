"""A static Program whose layers are divided among the ranks by `paddle.distributed.split`.

    python -m paddle.distributed.launch --nproc_per_node 2 examples/parallel_split.py [--steps N] [--out FILE]

It learns to find the largest of four numbers: an embedding divided by rows, a linear layer by columns, one by rows.
Every rank reads the whole batch and holds a part of the model. A single process has the same losses.
"""

import argparse

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F

NUMBERS, LENGTH, WIDTH, HIDDEN, BATCH = 32, 4, 16, 64, 64


def part(whole, axis, rank, world):
    """This rank's part of an initial value, which all ranks draw from one seed."""
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(np.split(whole, world, axis)[rank]))


def build(rank, world):
    """The mean loss, as a variable of the default Program."""
    draw = np.random.RandomState(1)
    table = draw.normal(0, 0.3, [NUMBERS, WIDTH]).astype("float32")
    wide = draw.normal(0, 0.1, [LENGTH * WIDTH, HIDDEN]).astype("float32")
    narrow = draw.normal(0, 0.1, [HIDDEN, NUMBERS]).astype("float32")
    rows = np.split(table, world)[rank]
    rows = np.concatenate([rows, np.zeros([1, WIDTH], "float32")])  # ids of the other ranks
    numbers = paddle.static.data("numbers", [BATCH, LENGTH], "int64")
    label = paddle.static.data("label", [BATCH, 1], "int64")
    x = dist.split(
        numbers,
        (NUMBERS, WIDTH),
        "embedding",
        num_partitions=world,
        weight_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(rows)),
    )
    x = paddle.reshape(x, [BATCH, LENGTH * WIDTH])
    x = dist.split(
        x,
        (LENGTH * WIDTH, HIDDEN),
        "linear",
        axis=1,
        num_partitions=world,
        gather_out=False,
        weight_attr=part(wide, 1, rank, world),
    )
    x = dist.split(
        F.relu(x),
        (HIDDEN, NUMBERS),
        "linear",
        axis=0,
        num_partitions=world,
        weight_attr=part(narrow, 0, rank, world),
        bias_attr=False,
    )
    return F.cross_entropy(x, label)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", help="a .npy file for the losses")
    args = parser.parse_args()
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.enable_static()
    loss = build(rank, world)
    # Every rank has the same loss; backward adds up the gradients of the ranks' parts.
    paddle.optimizer.Adam(learning_rate=0.01).minimize(loss / world)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    draw, losses = np.random.RandomState(2), []
    for step in range(args.steps):
        numbers = draw.randint(0, NUMBERS, [BATCH, LENGTH]).astype("int64")
        feed = {"numbers": numbers, "label": numbers.max(1, keepdims=True)}
        losses.append(exe.run(feed=feed, fetch_list=[loss])[0].item())
        if rank == 0 and step % 50 == 0:
            print("step %d: loss %.4f" % (step, losses[-1]))
    if rank == 0:
        print("after %d steps: loss %.4f" % (args.steps, losses[-1]))
        if args.out:
            np.save(args.out, np.array(losses))


if __name__ == "__main__":
    main()
