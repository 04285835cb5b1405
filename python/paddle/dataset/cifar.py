"""CIFAR: readers of (3072 float32 values in [0, 1], label)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np

from paddle._persistence import safe_pickle

from . import common
from .archives import members

__all__ = ["train100", "test100", "train10", "test10"]

URL_PREFIX = "https://dataset.bj.bcebos.com/cifar/"
CIFAR10_URL = URL_PREFIX + "cifar-10-python.tar.gz"
CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR100_URL = URL_PREFIX + "cifar-100-python.tar.gz"
CIFAR100_MD5 = "eb9058c3a382ffc7106e4002c42a8d85"


def samples(path: str, sub_name: str) -> Iterator[tuple[np.ndarray, int]]:
    """(3072 bytes, label) of the batches of an archive whose names contain `sub_name`.

    Raises:
        ValueError: for a batch without labels. pickle.UnpicklingError: for one that contains more than plain data.
    """
    # the folder name is not part of the match
    for name, content in members(path, lambda found: sub_name in found.rpartition("/")[2]):
        batch = safe_pickle.load(io.BytesIO(content.read()))
        # an archive that Python 3 has pickled again has keys of bytes
        batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        labels = batch.get("labels", batch.get("fine_labels"))
        if labels is None:
            raise ValueError(f"{name} in {path} has no labels")
        yield from zip(batch["data"], labels, strict=True)


def reader_creator(filename: str, sub_name: str, cycle: bool = False) -> Callable:
    """The reader of the batches of an archive whose names contain `sub_name`; `cycle` repeats them forever."""

    def reader() -> Iterator[tuple[np.ndarray, int]]:
        while True:
            for pixels, label in samples(filename, sub_name):
                yield (pixels / 255.0).astype(np.float32), int(label)
            if not cycle:
                return

    return reader


def train100() -> Callable:
    """The reader of the 50,000 training images in a hundred classes."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "train")


def test100() -> Callable:
    """The reader of the 10,000 test images in a hundred classes."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "test")


def train10(cycle: bool = False) -> Callable:
    """The reader of the 50,000 training images in ten classes; `cycle` repeats them forever."""
    return reader_creator(common.download(CIFAR10_URL, "cifar", CIFAR10_MD5), "data_batch", cycle)


def test10(cycle: bool = False) -> Callable:
    """The reader of the 10,000 test images in ten classes; `cycle` repeats them forever."""
    return reader_creator(common.download(CIFAR10_URL, "cifar", CIFAR10_MD5), "test_batch", cycle)


def fetch() -> None:
    """Downloads the files."""
    common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)
    common.download(CIFAR100_URL, "cifar", CIFAR100_MD5)
