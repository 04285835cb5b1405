"""Cifar10 and Cifar100: 32 x 32 images in 10 and 100 classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset import cifar
from paddle.dataset.local_files import check_mode, local_file

from .files import ImageDataset

__all__ = ["Cifar10", "Cifar100"]


class Cifar10(ImageDataset):
    """Images in ten classes: 50,000 for training, 10,000 for test (Krizhevsky, 2009).

    Args:
        data_file (str, optional): cifar-10-python.tar.gz; it is downloaded when None.
        mode (str): "train" or "test".
        transform (callable, optional): applied to the image.
        download (bool): whether the file may be downloaded.
        backend (str, optional): "pil" for Pillow images, "cv2" for arrays [32, 32, 3] of the default dtype; None:
            the current backend.

    Raises:
        AssertionError, ValueError: for other arguments. RuntimeError: if the download fails.
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
    """Images in a hundred classes; the arguments of Cifar10, with cifar-100-python.tar.gz."""

    _URL, _MD5 = cifar.CIFAR100_URL, cifar.CIFAR100_MD5
    _MEMBERS = {"train": "train", "test": "test"}
