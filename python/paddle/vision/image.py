"""The image backend (Pillow or OpenCV) and image_load."""

from __future__ import annotations

from typing import Any

from paddle.utils import try_import

__all__ = ["set_image_backend", "get_image_backend", "image_load"]

_image_backend = "pil"


def check_backend(backend: Any) -> str:
    """The given backend, or the current one for None; ValueError for another name."""
    if backend is None:
        return _image_backend
    if backend not in ("pil", "cv2"):
        raise ValueError(f"Expected backend are one of ['pil', 'cv2'], but got {backend!r:.200}")
    return backend


def set_image_backend(backend: str) -> None:
    """Sets the backend that reads images.

    Args:
        backend (str): "pil" (Pillow images) or "cv2" (arrays).

    Raises:
        ValueError: for another name.

    Examples:
        >>> import paddle
        >>> paddle.vision.set_image_backend("cv2")
        >>> paddle.vision.get_image_backend()
        'cv2'
        >>> paddle.vision.set_image_backend("pil")
    """
    global _image_backend
    if backend is None:
        raise ValueError("Expected backend are one of ['pil', 'cv2'], but got None")
    _image_backend = check_backend(backend)


def get_image_backend() -> str:
    """The backend that reads images: "pil" or "cv2".

    Examples:
        >>> import paddle
        >>> paddle.vision.get_image_backend()
        'pil'
    """
    return _image_backend


def image_load(path: str, backend: str | None = None) -> Any:
    """An image from a file.

    Args:
        path (str): the file.
        backend (str, optional): "pil" or "cv2"; None: the current backend.

    Returns:
        PIL.Image.Image, or with "cv2" a BGR array.

    Raises:
        ValueError: for another backend. FileNotFoundError: if there is no such file.
        ImportError: if Pillow or OpenCV is not installed; the message says how to install it.
    """
    if check_backend(backend) == "pil":
        return try_import("PIL.Image").open(path)
    pixels = try_import("cv2").imread(path)
    if pixels is None:
        raise FileNotFoundError(f"image_load: OpenCV finds no image in {path}")
    return pixels
