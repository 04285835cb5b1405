"""MNIST and FashionMNIST: 28 x 28 gray images in ten classes."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import numpy as np

from paddle.dataset import mnist
from paddle.dataset.local_files import check_mode, local_file

from .files import ImageDataset

__all__ = ["MNIST", "FashionMNIST"]


def _addresses(prefix: str) -> list[str]:
    """URLs of the images and labels for test, then of those for training."""
    return [prefix + name for name in mnist.SUMS]


def _numbers(path: str, dimensions: int) -> np.ndarray:
    """The bytes of a gzipped IDX file as an array; ValueError for an invalid file."""
    with gzip.open(path) as file:
        content = file.read()
    head = struct.calcsize(f">{dimensions + 1}I")
    if len(content) < head:
        raise ValueError(f"{path} is too short for an IDX file")
    magic, *shape = struct.unpack_from(f">{dimensions + 1}I", content)
    if magic != 0x800 + dimensions:
        raise ValueError(f"{path} is not an IDX file of bytes with {dimensions} dimensions: it begins with {magic:#x}")
    if len(content) - head < int(np.prod(shape, dtype=object)):
        raise ValueError(f"{path} ends before its {shape[0]} entries do")
    return np.frombuffer(content, np.uint8, int(np.prod(shape)), head).reshape(shape)


class MNIST(ImageDataset):
    """Handwritten digits: 60,000 for training, 10,000 for test.

    Args:
        image_path, label_path (str, optional): gzipped IDX files; they are downloaded when None.
        mode (str): "train" or "test".
        transform (callable, optional): applied to the image.
        download (bool): whether files may be downloaded.
        backend (str, optional): "pil" for Pillow images, "cv2" for arrays [28, 28] of the default dtype; None:
            the current backend.

    Raises:
        AssertionError, ValueError: for other arguments. RuntimeError: if a download fails.

    Examples:
        >>> import paddle
        >>> try:
        ...     digits = paddle.vision.datasets.MNIST(mode="test", download=False)
        ... except AssertionError as error:
        ...     print("t10k-images-idx3-ubyte.gz" in str(error))
        True
    """

    NAME = "mnist"
    URL_PREFIX = mnist.ADDRESS
    TEST_IMAGE_URL, TEST_LABEL_URL, TRAIN_IMAGE_URL, TRAIN_LABEL_URL = _addresses(URL_PREFIX)
    TEST_IMAGE_MD5, TEST_LABEL_MD5, TRAIN_IMAGE_MD5, TRAIN_LABEL_MD5 = mnist.SUMS.values()

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        self.mode = check_mode(mode, ("train", "test"))
        super().__init__(transform, backend)
        part = self.mode.upper()
        urls = [getattr(self, f"{part}_{what}_URL") for what in ("IMAGE", "LABEL")]
        sums = [getattr(self, f"{part}_{what}_MD5") for what in ("IMAGE", "LABEL")]
        self.image_path = local_file("image_path", image_path, urls[0], sums[0], self.NAME, download)
        self.label_path = local_file("label_path", label_path, urls[1], sums[1], self.NAME, download)
        images, labels = _numbers(self.image_path, 3), _numbers(self.label_path, 1)
        if len(images) != len(labels):
            raise ValueError(f"{self.image_path} has {len(images)} images, {self.label_path} {len(labels)} labels")
        self._shape = images.shape[1:]
        self.images: Any = images.reshape(len(images), -1).astype("float32")
        self.labels: Any = labels.astype("int64").reshape(-1, 1)

    def __getitem__(self, idx: int) -> tuple[Any, np.ndarray]:
        image = np.reshape(self.images[idx], self._shape)
        return self._image(image), np.array(self.labels[idx], "int64")

    def __len__(self) -> int:
        return len(self.labels)


class FashionMNIST(MNIST):
    """Images of clothing (github.com/zalandoresearch/fashion-mnist); the arguments of MNIST."""

    NAME = "fashion-mnist"
    URL_PREFIX = "https://dataset.bj.bcebos.com/fashion_mnist/"
    TEST_IMAGE_URL, TEST_LABEL_URL, TRAIN_IMAGE_URL, TRAIN_LABEL_URL = _addresses(URL_PREFIX)
    TEST_IMAGE_MD5 = "bef4ecab320f06d8554ea6380940ec79"
    TEST_LABEL_MD5 = "bb300cfdad3c16e7a12a480ee83cd310"
    TRAIN_IMAGE_MD5 = "8d4fb7e6c68d591d4c3dfef9ec88bf0d"
    TRAIN_LABEL_MD5 = "25c81989df183df01b3e8a0aad5dffbe"
