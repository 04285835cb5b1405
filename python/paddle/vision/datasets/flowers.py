"""Flowers: images of flowers in 102 classes."""

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
# Paddle trains on the authors' test set, which is larger
_SETS = {"train": "tstid", "test": "trnid", "valid": "valid"}


class Flowers(ImageDataset):
    """Flowers (Nilsback and Zisserman, 2008): 6149 images for training, 1020 for validation, 1020 for test.

    Reading requires SciPy (for the labels) and Pillow.

    Args:
        data_file (str, optional): 102flowers.tgz; it is downloaded when None.
        label_file (str, optional): imagelabels.mat, likewise.
        setid_file (str, optional): setid.mat, likewise.
        mode (str): "train", "valid" or "test".
        transform (callable, optional): applied to the image.
        download (bool): whether files may be downloaded.
        backend (str, optional): "pil" for Pillow images, "cv2" for arrays of the default dtype; None:
            the current backend.

    Raises:
        AssertionError, ValueError: for other arguments. RuntimeError: if a download fails.
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
