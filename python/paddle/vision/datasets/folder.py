"""DatasetFolder and ImageFolder: samples from files in folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from paddle._basics.default_dtype import get_default_dtype
from paddle.io import Dataset
from paddle.utils import try_import
from paddle.vision.image import get_image_backend

__all__ = ["DatasetFolder", "ImageFolder"]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def default_loader(path: str) -> Any:
    """An RGB image, read by the current backend."""
    if get_image_backend() == "cv2":
        cv2 = try_import("cv2")
        pixels = cv2.imread(path)
        if pixels is None:
            raise ValueError(f"OpenCV finds no image in {path}")
        return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    with open(path, "rb") as file:
        return try_import("PIL.Image").open(file).convert("RGB")


def _chosen(extensions: Any, is_valid_file: Any) -> tuple[Any, Callable[[str], bool]]:
    """File extensions, and the predicate that selects files; `is_valid_file` is used if no extensions are given."""
    if extensions is None and is_valid_file is not None:
        return None, is_valid_file
    endings = IMG_EXTENSIONS if extensions is None else tuple(extensions)
    return endings, lambda path: path.lower().endswith(endings)


def _files(folder: str, takes: Callable[[str], bool]) -> list[str]:
    """The selected files below a folder, in order."""
    paths = [
        os.path.join(root, name)
        for root, _, names in sorted(os.walk(folder, followlinks=True))
        for name in sorted(names)
    ]
    return [path for path in paths if takes(path)]


def _need_some(samples: list[Any], root: str, endings: Any) -> None:
    if not samples:
        what = "that is_valid_file accepts" if endings is None else f"that end in {', '.join(endings)}"
        raise RuntimeError(f"Found 0 files in subfolders of {root} {what}")


class _FolderDataset(Dataset):
    """Samples from the files below a folder; a subclass selects and labels them."""

    def __init__(
        self, root: str, loader: Any = None, extensions: Any = None, transform: Any = None, is_valid_file: Any = None
    ) -> None:
        super().__init__()
        self.root = root
        self.transform = transform
        self.loader = default_loader if loader is None else loader
        self.extensions, takes = _chosen(extensions, is_valid_file)
        self.samples = self._find(os.path.expanduser(root), takes)
        _need_some(self.samples, root, self.extensions)

    def _find(self, folder: str, takes: Callable[[str], bool]) -> list[Any]:
        raise NotImplementedError

    def _load(self, path: str) -> Any:
        sample = self.loader(path)
        return sample if self.transform is None else self.transform(sample)

    def __len__(self) -> int:
        return len(self.samples)


class DatasetFolder(_FolderDataset):
    """Classified files: each class is a folder, ``root/<class>/.../<file>``.

    Args:
        root (str): the folder that contains the class folders.
        loader (callable, optional): reads a sample from a path; an image loader when None.
        extensions (list|tuple, optional): file extensions; those of images when None.
        transform (callable, optional): applied to the sample.
        is_valid_file (callable, optional): selects paths, if no extensions are given.

    Attributes: ``classes`` (names), ``class_to_idx`` (name to index), ``samples`` (pairs of path and index),
    ``targets`` (indices).

    Raises:
        RuntimeError: if there is no file.

    Examples:
        >>> import os
        >>> import paddle
        >>> for name in ("cat", "dog"):
        ...     os.makedirs(f"pets/{name}")
        ...     open(f"pets/{name}/1.txt", "w").write(name.upper())
        3
        3
        >>> pets = paddle.vision.datasets.DatasetFolder("pets", lambda path: open(path).read(), extensions=[".txt"])
        >>> pets.classes, pets[1]
        (['cat', 'dog'], ('DOG', 1))
    """

    def _find(self, folder: str, takes: Callable[[str], bool]) -> list[Any]:
        self.classes, self.class_to_idx = self._find_classes(folder)
        self.dtype = get_default_dtype()
        pairs = self.class_to_idx.items()
        found = [(path, i) for name, i in pairs for path in _files(os.path.join(folder, name), takes)]
        self.targets = [target for _, target in found]
        return found

    def _find_classes(self, dir: str) -> tuple[list[str], dict[str, int]]:  # noqa: A002 (Paddle's name)
        classes = sorted(entry.name for entry in os.scandir(dir) if entry.is_dir())
        return classes, {name: i for i, name in enumerate(classes)}

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        return self._load(path), target


class ImageFolder(_FolderDataset):
    """Files below a folder, without classes: samples are lists of one.

    Args:
        root (str): the folder.
        loader, extensions, transform, is_valid_file: see DatasetFolder.

    Raises:
        RuntimeError: if there is no file.
    """

    def _find(self, folder: str, takes: Callable[[str], bool]) -> list[Any]:
        return _files(folder, takes)

    def __getitem__(self, index: int) -> list[Any]:
        return [self._load(self.samples[index])]
