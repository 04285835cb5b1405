"""PASCAL VOC 2012 segmentation: readers of (image, class of each pixel) arrays. Reading requires Pillow."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator

import numpy as np

from paddle.utils import try_import

from . import common

__all__ = ["train", "test", "val"]

VOC_URL = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
VOC_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
_FOLDER = "VOCdevkit/VOC2012/"


def reader_creator(filename: str, sub_name: str) -> Callable:
    """The reader of one of the archive's image lists."""

    def reader() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        pillow = try_import("PIL.Image")
        with tarfile.open(filename) as archive:

            def read(name: str) -> bytes:
                content = archive.extractfile(_FOLDER + name)
                assert content is not None, f"{name} in {filename} is not a file"
                return content.read()

            for name in read(f"ImageSets/Segmentation/{sub_name}.txt").decode().split():
                both = (read(f"JPEGImages/{name}.jpg"), read(f"SegmentationClass/{name}.png"))
                yield tuple(np.array(pillow.open(io.BytesIO(content))) for content in both)  # type: ignore[misc]

    return reader


def _reader(sub_name: str) -> Callable:
    return reader_creator(common.download(VOC_URL, "voc2012", VOC_MD5), sub_name)


def train() -> Callable:
    """The reader of all 2913 images."""
    return _reader("trainval")


def test() -> Callable:
    """The reader of the 1464 training images."""
    return _reader("train")


def val() -> Callable:
    """The reader of the 1449 validation images."""
    return _reader("val")
