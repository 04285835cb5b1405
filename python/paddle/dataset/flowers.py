"""Flowers in 102 classes: readers of (150,528 float32 values, label). Reading requires OpenCV and SciPy."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from paddle.reader import map_readers, xmap_readers
from paddle.utils import try_import

from . import common, image
from .archives import members

__all__ = ["train", "test", "valid"]

_ADDRESS = "http://paddlemodels.bj.bcebos.com/flowers/"
DATA_URL = _ADDRESS + "102flowers.tgz"
LABEL_URL = _ADDRESS + "imagelabels.mat"
SETID_URL = _ADDRESS + "setid.mat"
DATA_MD5 = "52808999861908f626f3c1f4e79d11fa"
LABEL_MD5 = "e0620be6f572b9609742df49c70aed4d"
SETID_MD5 = "a5357ecc9cb78c4bef273ce3793fc85c"
# Paddle trains on the authors' test set, which is larger
TRAIN_FLAG, TEST_FLAG, VALID_FLAG = "tstid", "trnid", "valid"


def default_mapper(is_train: bool, sample: Any) -> tuple[Any, Any]:
    """An encoded image as 3 x 224 x 224 values minus their mean, flattened."""
    encoded, label = sample
    pixels = image.simple_transform(image.load_image_bytes(encoded), 256, 224, is_train, mean=[103.94, 116.78, 123.68])
    return pixels.flatten().astype("float32"), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)


def reader_creator(
    data_file: str,
    label_file: str,
    setid_file: str,
    dataset_name: str,
    mapper: Callable,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Callable:
    """The reader of `mapper` applied to (encoded image, label from 0).

    Args:
        data_file (str): 102flowers.tgz.
        label_file (str): imagelabels.mat.
        setid_file (str): setid.mat.
        dataset_name (str): a key of the setid file.
        mapper (callable): function of a sample.
        buffered_size (int): size of the sample buffer.
        use_xmap (bool): whether to map in several threads.
        cycle (bool): repeat forever.
    """
    matlab = try_import("scipy.io")
    labels = matlab.loadmat(label_file)["labels"][0]
    chosen = {f"jpg/image_{i:05d}.jpg": int(labels[i - 1]) for i in matlab.loadmat(setid_file)[dataset_name][0]}

    def reader() -> Iterator[tuple[bytes, int]]:
        while True:
            for name, content in members(data_file, chosen.__contains__):
                yield content.read(), chosen[name] - 1
            if not cycle:
                return

    if use_xmap:
        return xmap_readers(mapper, reader, min(4, os.cpu_count() or 1), buffered_size)
    return map_readers(mapper, reader)


def _files() -> tuple[str, str, str]:
    return (
        common.download(DATA_URL, "flowers", DATA_MD5),
        common.download(LABEL_URL, "flowers", LABEL_MD5),
        common.download(SETID_URL, "flowers", SETID_MD5),
    )


def train(
    mapper: Callable = train_mapper, buffered_size: int = 1024, use_xmap: bool = True, cycle: bool = False
) -> Callable:
    """The reader of the 6149 training images; see :func:`reader_creator`."""
    return reader_creator(*_files(), TRAIN_FLAG, mapper, buffered_size, use_xmap, cycle=cycle)


def test(
    mapper: Callable = test_mapper, buffered_size: int = 1024, use_xmap: bool = True, cycle: bool = False
) -> Callable:
    """The reader of the 1020 test images; see :func:`reader_creator`."""
    return reader_creator(*_files(), TEST_FLAG, mapper, buffered_size, use_xmap, cycle=cycle)


def valid(mapper: Callable = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Callable:
    """The reader of the 1020 validation images; see :func:`reader_creator`."""
    return reader_creator(*_files(), VALID_FLAG, mapper, buffered_size, use_xmap)


def fetch() -> None:
    """Downloads the files."""
    _files()
