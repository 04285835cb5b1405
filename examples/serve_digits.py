"""Train a Layer, save it, load and fine-tune it, and serve it with one predictor per thread.

    python examples/serve_digits.py

The data are digits of 8 x 8 pixels, drawn from a seed: a bright block whose place depends on the class, and noise.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import paddle
from paddle import nn
from paddle.inference import Config, PredictorPool
from paddle.static import InputSpec

IMAGE = InputSpec([None, 1, 8, 8], "float32", "image")


class Net(nn.Layer):
    """Two convolutions with batch_norm, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(), nn.Conv2D(16, 16, 3, padding=1), nn.ReLU()
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(16 * 64, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` images [count, 1, 8, 8] and their classes."""
    r = np.random.RandomState(seed)
    classes = r.randint(0, 10, count)
    images = r.randn(count, 1, 8, 8).astype("float32") * 0.5
    for image, k in zip(images, classes, strict=True):
        image[0, k // 3 * 2 : k // 3 * 2 + 2, k % 3 * 2 : k % 3 * 2 + 3] += 0.7
    return images, classes.astype("int64")


def train(net, steps: int, seed: int) -> float:
    """Some steps of Adam; the last loss."""
    net.train()
    optimizer = paddle.optimizer.Adam(0.003, parameters=net.parameters())
    for step in range(steps):
        images, classes = digits(64, seed + step)
        loss = nn.functional.cross_entropy(net(paddle.to_tensor(images)), paddle.to_tensor(classes))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    net.eval()
    return float(loss)


def serve(prefix: str, images: np.ndarray, threads: int) -> tuple[np.ndarray, float]:
    """The classes of all images, by `threads` predictors at once; and images per second."""
    pool = PredictorPool(Config(prefix + ".pdmodel", prefix + ".pdiparams"), threads)
    answers = np.zeros(len(images), "int64")

    def work(number: int) -> None:
        predictor = pool.retrive(number)
        handle = predictor.get_input_handle("image")
        answer = predictor.get_output_handle(predictor.get_output_names()[0])
        for i in range(number, len(images), threads):
            handle.copy_from_cpu(images[i : i + 1])
            predictor.run()
            answers[i] = answer.copy_to_cpu().argmax()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return answers, len(images) / (time.perf_counter() - start)


def main(steps: int = 40, threads: int = 2, count: int = 500) -> float:
    """Runs the example; returns the accuracy of the served model."""
    paddle.seed(7)
    net = Net()
    print(f"trained: loss {train(net, steps, 0):.3f}")
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(Path(folder) / "digits")
        paddle.jit.save(net, prefix, [IMAGE])
        loaded = paddle.jit.load(prefix)
        print(f"loaded and fine-tuned: loss {train(loaded, steps // 4, 1000):.3f}")
        paddle.jit.save(loaded, prefix)
        images, classes = digits(count, 99)
        answers, rate = serve(prefix, images, threads)
        same = (loaded(paddle.to_tensor(images)).numpy().argmax(1) == answers).mean()
    accuracy = float((answers == classes).mean())
    print(f"served by {threads} threads: {rate:.0f} images/s, accuracy {accuracy:.3f}, equal to the Layer's {same:.3f}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    main(given.steps, given.threads)
