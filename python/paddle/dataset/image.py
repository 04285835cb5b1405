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
    """Writes encoded images of an archive to files of several, with their labels; returns the file that lists them.

    Args:
        data_file (str): a tar archive; the files go to the folder ``<data_file>_batch``.
        dataset_name (str): names the list and the files' folder; if that is there, nothing is written.
        img2label (dict): the labels of the images that are taken, by name.
        num_per_batch (int): images of a file.
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
    """An image from its encoded bytes: blue, green, red, or gray."""
    return try_import("cv2").imdecode(np.frombuffer(bytes, np.uint8), int(is_color))


def load_image(file: str, is_color: bool = True) -> np.ndarray:
    """An image from a file: blue, green, red, or gray."""
    return try_import("cv2").imread(file, int(is_color))


def resize_short(im: np.ndarray, size: int) -> np.ndarray:
    """An image whose shorter side has the length `size`."""
    height, width = im.shape[:2]
    wanted = (size, size * height // width) if height > width else (size * width // height, size)
    cv2 = try_import("cv2")
    return cv2.resize(im, wanted, interpolation=cv2.INTER_CUBIC)


def to_chw(im: np.ndarray, order: Any = (2, 0, 1)) -> np.ndarray:
    """An image with its dimensions in another order; AssertionError for another number of them."""
    assert len(im.shape) == len(order), f"to_chw: the image has {im.ndim} dimensions, order is {order}"
    return im.transpose(order)


def center_crop(im: np.ndarray, size: int, is_color: bool = True) -> np.ndarray:
    """The square in the middle."""
    top, left = (im.shape[0] - size) // 2, (im.shape[1] - size) // 2
    return im[top : top + size, left : left + size]


def random_crop(im: np.ndarray, size: int, is_color: bool = True) -> np.ndarray:
    """A square at a place that numpy's global generator draws."""
    top = np.random.randint(0, im.shape[0] - size + 1)
    left = np.random.randint(0, im.shape[1] - size + 1)
    return im[top : top + size, left : left + size]


def left_right_flip(im: np.ndarray, is_color: bool = True) -> np.ndarray:
    """An image with left and right exchanged.

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
    """An image for a network: resized, cut to a square, [channels, height, width], float32, without the mean.

    Args:
        im (numpy.ndarray): an image.
        resize_size (int): of the shorter side.
        crop_size (int): of the square, which is in the middle, or with `is_train` at a random place.
        is_train (bool): every second image is flipped then.
        is_color (bool): whether there are channels.
        mean (list|numpy.ndarray, optional): for each channel, or of the result's shape.
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
