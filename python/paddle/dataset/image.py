"""Functions of images as arrays [height, width, channels], read by OpenCV."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np

from paddle.utils import try_import

from .archives import members

__all__ = [
    "load_image_bytes",
    "load_image",
    "resize_short",
    "to_chw",
    "center_crop",
    "random_crop",
    "left_right_flip",
    "simple_transform",
    "load_and_transform",
    "batch_images_from_tar",
]


def batch_images_from_tar(
    data_file: str, dataset_name: str, img2label: dict[str, Any], num_per_batch: int = 1024
) -> str:
    """Writes the encoded images of an archive to batch files with their labels; returns the file that lists them.

    Args:
        data_file (str): a tar archive; the output folder is ``<data_file>_batch``.
        dataset_name (str): names the list and the output folder; if it exists, nothing is written.
        img2label (dict): labels of the selected images, by name.
        num_per_batch (int): images per file.
    """
    folder = os.path.join(data_file + "_batch", dataset_name)
    listed = folder + ".txt"
    if os.path.exists(folder):
        return listed
    os.makedirs(folder)
    batch: dict[str, list] = {"label": [], "data": []}
    paths: list[str] = []

    def write() -> None:
        nonlocal batch
        paths.append(os.path.abspath(os.path.join(folder, f"batch_{len(paths)}")))
        with open(paths[-1], "wb") as file:
            pickle.dump(batch, file, protocol=2)
        batch = {"label": [], "data": []}

    for name, content in members(data_file, img2label.__contains__):
        batch["data"].append(content.read())
        batch["label"].append(img2label[name])
        if len(batch["data"]) == num_per_batch:
            write()
    if batch["data"]:
        write()
    with open(listed, "a") as file:
        file.writelines(path + "\n" for path in paths)
    return listed


def load_image_bytes(bytes: bytes, is_color: bool = True) -> np.ndarray:  # noqa: A002 (Paddle's name)
    """Decodes an image: BGR or gray."""
    return try_import("cv2").imdecode(np.frombuffer(bytes, np.uint8), int(is_color))


def load_image(file: str, is_color: bool = True) -> np.ndarray:
    """Reads an image file: BGR or gray."""
    return try_import("cv2").imread(file, int(is_color))


def resize_short(im: np.ndarray, size: int) -> np.ndarray:
    """Resizes an image so that its shorter side has length `size`."""
    height, width = im.shape[:2]
    wanted = (size, size * height // width) if height > width else (size * width // height, size)
    cv2 = try_import("cv2")
    return cv2.resize(im, wanted, interpolation=cv2.INTER_CUBIC)


def to_chw(im: np.ndarray, order: Any = (2, 0, 1)) -> np.ndarray:
    """Transposes an image; AssertionError if `order` has another length than its rank."""
    assert len(im.shape) == len(order), f"to_chw: the image has {im.ndim} dimensions, order is {order}"
    return im.transpose(order)


def center_crop(im: np.ndarray, size: int, is_color: bool = True) -> np.ndarray:
    """Crops the center square."""
    top, left = (im.shape[0] - size) // 2, (im.shape[1] - size) // 2
    return im[top : top + size, left : left + size]


def random_crop(im: np.ndarray, size: int, is_color: bool = True) -> np.ndarray:
    """Crops a square at a position drawn by numpy's global generator."""
    top = np.random.randint(0, im.shape[0] - size + 1)
    left = np.random.randint(0, im.shape[1] - size + 1)
    return im[top : top + size, left : left + size]


def left_right_flip(im: np.ndarray, is_color: bool = True) -> np.ndarray:
    """Flips an image horizontally.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.dataset.image.left_right_flip(np.array([[1, 2]])).tolist()
        [[2, 1]]
    """
    return im[:, ::-1]


def simple_transform(
    im: np.ndarray, resize_size: int, crop_size: int, is_train: bool, is_color: bool = True, mean: Any = None
) -> np.ndarray:
    """Prepares an image for a network: resize, square crop, [channels, height, width], float32, minus the mean.

    Args:
        im (numpy.ndarray): an image.
        resize_size (int): length of the shorter side.
        crop_size (int): size of the square: centered, or with `is_train` at a random position.
        is_train (bool): also flips half of the images.
        is_color (bool): whether there are channels.
        mean (list|numpy.ndarray, optional): per channel, or of the result's shape.
    """
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size, is_color)
        if np.random.randint(2) == 0:
            im = left_right_flip(im, is_color)
    else:
        im = center_crop(im, crop_size, is_color)
    if im.ndim == 3:
        im = to_chw(im)
    im = im.astype("float32")
    if mean is not None:
        mean = np.asarray(mean, np.float32)
        im -= mean[:, np.newaxis, np.newaxis] if mean.ndim == 1 and is_color else mean
    return im


def load_and_transform(
    filename: str, resize_size: int, crop_size: int, is_train: bool, is_color: bool = True, mean: Any = None
) -> np.ndarray:
    """:func:`simple_transform` of an image from a file."""
    return simple_transform(load_image(filename, is_color), resize_size, crop_size, is_train, is_color, mean)
