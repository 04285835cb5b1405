"""MNIST digits, 28 x 28: readers of (784 float32 values in [-1, 1], label)."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import numpy as np

from . import common

__all__ = ["train", "test"]

ADDRESS = "https://dataset.bj.bcebos.com/mnist/"
SUMS = {
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
}


def _file(name: str) -> str:
    return common.download(ADDRESS + name, "mnist", SUMS[name])


def reader_creator(image_filename: str, label_filename: str, buffer_size: int) -> Callable:
    """A reader of two gzipped IDX files.

    Raises:
        ValueError: while reading, if the numbers of images and labels differ.
    """

    def reader():
        with gzip.open(image_filename) as images, gzip.open(label_filename) as labels:
            _, count, rows, columns = struct.unpack(">IIII", images.read(16))
            _, names = struct.unpack(">II", labels.read(8))
            if count != names:
                raise ValueError(f"{image_filename} has {count} images, {label_filename} has {names} labels")
            for begin in range(0, count, buffer_size):
                n = min(buffer_size, count - begin)
                pixels = np.frombuffer(images.read(n * rows * columns), np.uint8).reshape(n, rows * columns)
                values = pixels.astype("float32") / 255.0 * 2.0 - 1.0
                for value, name in zip(values, labels.read(n), strict=False):
                    yield value, int(name)

    return reader


def train() -> Callable:
    """The reader of the 60,000 training digits."""
    return reader_creator(_file("train-images-idx3-ubyte.gz"), _file("train-labels-idx1-ubyte.gz"), 100)


def test() -> Callable:
    """The reader of the 10,000 test digits."""
    return reader_creator(_file("t10k-images-idx3-ubyte.gz"), _file("t10k-labels-idx1-ubyte.gz"), 100)


def fetch() -> None:
    """Downloads the files."""
    for name in SUMS:
        _file(name)
