"""Base classes of the image data sets: conversion of images, and files in archives."""

from __future__ import annotations

import io
import tarfile
import threading
from typing import Any

import numpy as np

from paddle._basics.default_dtype import get_default_dtype
from paddle.io import Dataset
from paddle.utils import try_import
from paddle.vision.image import check_backend

__all__: list[str] = []


class ImageDataset(Dataset):
    """A data set of Pillow images, or of arrays ("cv2") of the default dtype."""

    def __init__(self, transform: Any, backend: str | None) -> None:
        super().__init__()
        self.backend = check_backend(backend)
        self.transform = transform
        self.dtype = get_default_dtype()

    def _image(self, pixels: np.ndarray) -> Any:
        """An array converted for the backend and transformed."""
        image: Any = pixels
        if self.backend == "pil":
            image = try_import("PIL.Image").fromarray(np.ascontiguousarray(pixels, "uint8"))
        return self._finished(image)

    def _finished(self, image: Any) -> Any:
        if self.transform is not None:
            image = self.transform(image)
        return image.astype(self.dtype) if self.backend == "cv2" else image


class Archive:
    """Files in a tar archive, by name. Copies in other processes open the archive themselves."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._tar: tarfile.TarFile | None = None
        self._members: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._open()

    def _open(self) -> tarfile.TarFile:
        if self._tar is None:
            self._tar = tarfile.open(self.path)
            self._members = {member.name: member for member in self._tar.getmembers()}
        return self._tar

    def read(self, name: str) -> bytes:
        """The content of a file; KeyError if there is none."""
        with self._lock:
            archive = self._open()
            if name not in self._members:
                raise KeyError(f"{self.path} has no file {name}")
            content = archive.extractfile(self._members[name])
            if content is None:
                raise KeyError(f"{name} in {self.path} is not a file")
            return content.read()

    def image(self, name: str) -> Any:
        """A Pillow image."""
        return try_import("PIL.Image").open(io.BytesIO(self.read(name)))

    def forget(self) -> None:
        """Reopen the archive at the next read: a forked process shares the file offset of its parent."""
        self._tar = None

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path = state["path"]
        self._tar, self._members, self._lock = None, {}, threading.Lock()
