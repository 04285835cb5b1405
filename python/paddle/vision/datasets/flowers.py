"""Flowers: photographs in 102 classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset.local_files import check_mode, local_file
from paddle.utils import try_import

from .files import Archive, ImageDataset

__all__ = ["Flowers"]

_ADDRESS = "http://paddlemodels.bj.bcebos.com/flowers/"
_FILES = {
    "data_file": ("102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
    "label_file": ("imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
    "setid_file": ("setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
}
# Paddle trains with what its authors kept for testing, which is more
_SETS = {"train": "tstid", "test": "trnid", "valid": "valid"}


class Flowers(ImageDataset):
    """Flowers (Nilsback and Zisserman, 2008): 6149 photographs to train with, 1020 to validate, 1020 to test.

    Reading needs SciPy (for the labels) and Pillow.

    Args:
        data_file (str, optional): 102flowers.tgz; it is fetched when None.
        label_file (str, optional): imagelabels.mat, likewise.
        setid_file (str, optional): setid.mat, likewise.
        mode (str): "train", "valid" or "test".
        transform (callable, optional): of the image.
        download (bool): whether files may be fetched.
        backend (str, optional): "pil" for images of Pillow, "cv2" for arrays of the default type; the one that is set
            when None.

    Raises:
        AssertionError, ValueError: for other arguments. RuntimeError: when a file could not be fetched.
    """

    def __init__(
        self,
        data_file: str | None = None,
        label_file: str | None = None,
        setid_file: str | None = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        self.flag = _SETS[check_mode(mode, ("train", "valid", "test"))]
        super().__init__(transform, backend)
        given = {"data_file": data_file, "label_file": label_file, "setid_file": setid_file}
        paths = {
            name: local_file(name, given[name], _ADDRESS + file, md5, "flowers", download)
            for name, (file, md5) in _FILES.items()
        }
        self.data_file, self.label_file, self.setid_file = paths.values()
        matlab = try_import("scipy.io")
        self._archive = Archive(self.data_file)
        self.labels = matlab.loadmat(self.label_file)["labels"][0]
        self.indexes = matlab.loadmat(self.setid_file)[self.flag][0]

    def __getitem__(self, idx: int) -> tuple[Any, np.ndarray]:
        number = self.indexes[idx]
        image = self._archive.image(f"jpg/image_{number:05d}.jpg")
        if self.backend == "cv2":
            image = np.array(image)
        return self._finished(image), np.array([self.labels[number - 1]]).astype("int64")

    def __len__(self) -> int:
        return len(self.indexes)
