"""Data, command line and progress bar of the LeNet examples; does not import paddle."""

import argparse
import json
import os
import sys
import time

import numpy as np

BATCH = 64
EPOCHS = 12
SEED = 5
LEARNING_RATE = 0.05
MOMENTUM = 0.9
HELD_OUT = 360


def load_data(path=None):
    """Train and held-out images (float32, [N, 1, 8, 8], 0 to 1) and labels (int64, [N, 1]).

    They come from scikit-learn, or from the .npz file `path` that an earlier call has written there.
    """
    if path is None or not os.path.exists(path):
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        if path is not None:
            np.savez(path, images=images, labels=labels)
    else:
        data = np.load(path)
        images, labels = data["images"], data["labels"]
    images = (images / 16).astype("float32").reshape(-1, 1, 8, 8)
    labels = labels.astype("int64").reshape(-1, 1)
    order = np.random.RandomState(0).permutation(len(images))
    train, test = order[HELD_OUT:], order[:HELD_OUT]
    return images[train], labels[train], images[test], labels[test]


def shuffled_batches(images, labels):
    """One epoch's batches in the order that `paddle.io.DataLoader(shuffle=True)` takes for the same numpy seed."""
    order = np.random.permutation(len(images))
    for begin in range(0, len(order), BATCH):
        chosen = order[begin : begin + BATCH]
        yield images[chosen], labels[chosen]


def arguments(description):
    """The command line of an example."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", help="an .npz file of the digits; written when missing")
    parser.add_argument("--out", default="lenet_model", help="folder for the model, losses.npy and init.npz")
    parser.add_argument("--init", help="an .npz file of initial values, such as init.npz of another run")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--test", action="store_true", help="no training: load the model from --out and test it")
    return parser.parse_args()


class Progress:
    """A bar on the terminal (nothing when the output is a file), and the losses and the time so far."""

    def __init__(self, title, total):
        self.title, self.total, self.losses, self.begin, self.drawn = title, total, [], time.perf_counter(), 0.0

    def step(self, loss):
        self.losses.append(float(np.asarray(loss).reshape(-1)[0]))
        now, done = time.perf_counter(), len(self.losses)
        if sys.stderr.isatty() and (now - self.drawn > 0.05 or done == self.total):
            self.drawn = now
            bar = "#" * (30 * done // self.total)
            sys.stderr.write("\r%-8s [%-30s] %d/%d  loss %.4f " % (self.title, bar, done, self.total, self.losses[-1]))
            sys.stderr.write("\n" if done == self.total else "")
            sys.stderr.flush()

    def finish(self, out):
        """Write the losses to `out` and return the seconds since the start."""
        seconds = time.perf_counter() - self.begin
        np.save(os.path.join(out, "losses.npy"), np.array(self.losses))
        return seconds


def report(title, accuracy, seconds=None):
    """Print the result, last of all as a line of JSON for demo.py."""
    taken = "" if seconds is None else ", trained in %.2f s" % seconds
    print("%s: %.2f %% of %d held-out digits right%s" % (title, 100 * accuracy, HELD_OUT, taken))
    print(json.dumps({"accuracy": accuracy, "seconds": seconds}))


def accuracy_of(scores, labels):
    """Accuracy: the share of rows of `scores` ([N, 10]) whose largest entry is at the label."""
    return float((np.asarray(scores).argmax(axis=1) == labels.reshape(-1)).mean())
