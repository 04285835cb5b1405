"""What images are read with: Pillow or OpenCV."""

from __future__ import annotations

from typing import Any

from paddle.utils import try_import

__all__ = ["set_image_backend", "get_image_backend", "image_load"]

_image_backend = "pil"


def check_backend(backend: Any) -> str:
    """The backend of that name, the one that is set for None; ValueError for any other."""
    if backend is None:
        return _image_backend
    if backend not in ("pil", "cv2"):
        raise ValueError(f"Expected backend are one of ['pil', 'cv2'], but got {backend!r:.200}")
    return backend


def set_image_backend(backend: str) -> None:
    """Says what images are read with from now on.

    Args:
        backend (str): "pil" (Pillow, whose images they are then) or "cv2" (arrays).

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
    """What images are read with: "pil" or "cv2".

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
        backend (str, optional): "pil" or "cv2"; the one that is set when None.

    Returns:
        PIL.Image.Image, or an array of blue, green, red with "cv2".

    Raises:
        ValueError: for another backend. FileNotFoundError: when there is no such file.
        ImportError: when Pillow, or OpenCV, is not installed; it says how to do that.
    """
    if check_backend(backend) == "pil":
        return try_import("PIL.Image").open(path)
    pixels = try_import("cv2").imread(path)
    if pixels is None:
        raise FileNotFoundError(f"image_load: OpenCV finds no image in {path}")
    return pixels
