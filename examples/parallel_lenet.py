"""LeNet on handwritten digits by several processes, each with its part of every batch.

    python -m paddle.distributed.launch --nproc_per_node 2 examples/parallel_lenet.py [--out FOLDER] [--epochs N]

One process alone (python examples/parallel_lenet.py) trains on whole batches with the same losses.
"""

import os

import digits
import lenet_dygraph
import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F


def train(images, labels, epochs, out):
    """Train a new LeNet with the other ranks; rank 0 saves it, and the losses of the whole batches, in `out`."""
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(digits.SEED + rank)  # ranks draw different values: DataParallel broadcasts those of rank 0
    np.random.seed(digits.SEED)  # all ranks read the data in one order
    model = paddle.DataParallel(lenet_dygraph.LeNet()) if world > 1 else lenet_dygraph.LeNet()
    optimizer = paddle.optimizer.Momentum(
        learning_rate=digits.LEARNING_RATE, momentum=digits.MOMENTUM, parameters=model.parameters()
    )
    steps = epochs * (len(images) // digits.BATCH)
    progress = digits.Progress("parallel", steps)
    for _ in range(epochs):
        for image, label in digits.shuffled_batches(images, labels):
            if len(image) < digits.BATCH:
                continue  # the last batch of an epoch cannot be divided equally
            part = slice(rank * digits.BATCH // world, (rank + 1) * digits.BATCH // world)
            loss = F.cross_entropy(model(paddle.to_tensor(image[part])), paddle.to_tensor(label[part]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            mean = loss.detach()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            if rank == 0:
                progress.step(mean.numpy())
    if rank == 0:
        os.makedirs(out, exist_ok=True)
        seconds = progress.finish(out)
        paddle.save(model.state_dict(), os.path.join(out, "lenet.pdparams"))
        return seconds
    return None


def main(args):
    train_images, train_labels, test_images, test_labels = digits.load_data(args.data)
    seconds = None if args.test else train(train_images, train_labels, args.epochs, args.out)
    if dist.get_rank() == 0:
        model = lenet_dygraph.load(args.out)
        digits.report("parallel", lenet_dygraph.test(model, test_images, test_labels), seconds)


if __name__ == "__main__":
    main(digits.arguments(__doc__))
