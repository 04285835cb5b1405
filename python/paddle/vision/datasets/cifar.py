"""Cifar10 and Cifar100: images of 32 x 32 in ten and in a hundred classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset import cifar
from paddle.dataset.local_files import check_mode, local_file

from .files import ImageDataset

__all__ = ["Cifar10", "Cifar100"]


class Cifar10(ImageDataset):
    """Photographs in ten classes: 50,000 to train with, 10,000 to test (Krizhevsky, 2009).

    Args:
        data_file (str, optional): cifar-10-python.tar.gz; it is fetched when None.
        mode (str): "train" or "test".
        transform (callable, optional): of the image.
        download (bool): whether the file may be fetched.
        backend (str, optional): "pil" for images of Pillow, "cv2" for arrays [32, 32, 3] of the default type; the one
            that is set when None.

    Raises:
        AssertionError, ValueError: for other arguments. RuntimeError: when the file could not be fetched.
    """

    _URL, _MD5 = cifar.CIFAR10_URL, cifar.CIFAR10_MD5
    _MEMBERS = {"train": "data_batch", "test": "test_batch"}

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        self.mode = check_mode(mode, ("train", "test"))
        super().__init__(transform, backend)
        self.data_file = local_file("data_file", data_file, self._URL, self._MD5, "cifar", download)
        self.flag = self._MEMBERS[self.mode]
        self.data = list(cifar.samples(self.data_file, self.flag))
        if not self.data:
            raise ValueError(f"{self.data_file} has no file with {self.flag!r} in its name")

    def __getitem__(self, idx: int) -> tuple[Any, np.ndarray]:
        pixels, label = self.data[idx]
        return self._image(pixels.reshape(3, 32, 32).transpose(1, 2, 0)), np.array(label).astype("int64")

    def __len__(self) -> int:
        return len(self.data)


class Cifar100(Cifar10):
    """Photographs in a hundred classes; arguments as of Cifar10, with cifar-100-python.tar.gz."""

    _URL, _MD5 = cifar.CIFAR100_URL, cifar.CIFAR100_MD5
    _MEMBERS = {"train": "train", "test": "test"}
