"""VOC2012: semantic segmentation (PASCAL VOC 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset.local_files import check_mode, local_file

from .files import Archive, ImageDataset

__all__ = ["VOC2012"]

_URL = "https://dataset.bj.bcebos.com/voc/VOCtrainval_11-May-2012.tar"
_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
_FOLDER = "VOCdevkit/VOC2012/"
_SETS = {"train": "trainval", "test": "train", "valid": "val"}


class VOC2012(ImageDataset):
    """Images and their segmentation masks (PASCAL VOC 2012). Reading requires Pillow.

    Args:
        data_file (str, optional): VOCtrainval_11-May-2012.tar; it is downloaded when None.
        mode (str): "train", "valid" or "test".
        transform (callable, optional): applied to the image.
        download (bool): whether the file may be downloaded.
        backend (str, optional): "pil" for Pillow images, "cv2" for arrays of the default dtype; None:
            the current backend.

    Raises:
        AssertionError, ValueError: for other arguments. RuntimeError: if the download fails.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Any = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        self.flag = _SETS[check_mode(mode, ("train", "valid", "test"))]
        super().__init__(transform, backend)
        self.data_file = local_file("data_file", data_file, _URL, _MD5, "voc2012", download)
        self._archive = Archive(self.data_file)
        names = self._archive.read(f"{_FOLDER}ImageSets/Segmentation/{self.flag}.txt").decode().split()
        self.data = [f"{_FOLDER}JPEGImages/{name}.jpg" for name in names]
        self.labels = [f"{_FOLDER}SegmentationClass/{name}.png" for name in names]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image, label = self._archive.image(self.data[idx]), self._archive.image(self.labels[idx])
        if self.backend == "cv2":
            return self._finished(np.array(image)), np.array(label).astype(self.dtype)
        return self._finished(image), label

    def __len__(self) -> int:
        return len(self.data)
