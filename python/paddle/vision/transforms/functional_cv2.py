"""The functions of paddle.vision.transforms for arrays: [height, width, channels] or [height, width].

OpenCV resizes, rotates and converts the hue; numpy implements the rest, with the results of OpenCV.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddle.tensor import to_tensor as tensor_of
from paddle.utils import try_import

from .geometry import Border, output_size

__all__: list[str] = []

_FLAGS = {
    "nearest": "INTER_NEAREST",
    "bilinear": "INTER_LINEAR",
    "area": "INTER_AREA",
    "bicubic": "INTER_CUBIC",
    "lanczos": "INTER_LANCZOS4",
}


def _flag(cv2: Any, interpolation: str) -> Any:
    if interpolation not in _FLAGS:
        raise KeyError(f"interpolation must be one of {', '.join(_FLAGS)} for arrays, got {interpolation!r}")
    return getattr(cv2, _FLAGS[interpolation])


def _like(found: np.ndarray, img: np.ndarray) -> np.ndarray:
    """With the last dimension of `img`, which OpenCV drops if its size is one."""
    return found[:, :, np.newaxis] if img.ndim == 3 and found.ndim == 2 else found


def to_tensor(pic: np.ndarray, data_format: str) -> Any:
    if pic.ndim == 2:
        pic = pic[:, :, np.newaxis]
    if pic.dtype == np.uint8:
        pic = pic.astype("float32") / np.float32(255)
    return tensor_of(np.ascontiguousarray(pic.transpose(2, 0, 1)) if data_format == "CHW" else pic)


def size(img: np.ndarray) -> tuple[int, int]:
    return img.shape[1], img.shape[0]


def resize(img: np.ndarray, wanted: Any, interpolation: str) -> np.ndarray:
    found = output_size(*size(img), wanted)
    if found is None:
        return img
    cv2 = try_import("cv2")
    return _like(cv2.resize(img, dsize=found, interpolation=_flag(cv2, interpolation)), img)


def _scalar(fill: Any, channels: int) -> list[float]:
    """A color for OpenCV: a number sets the first channel, missing channels are 0."""
    values = [float(v) for v in (fill if isinstance(fill, (list, tuple)) else [fill])]
    return (values + [0.0] * channels)[:channels]


def pad(img: np.ndarray, border: Border, fill: Any, padding_mode: str) -> np.ndarray:
    widths = [(border.top, border.bottom), (border.left, border.right), (0, 0)][: img.ndim]
    if padding_mode != "constant":
        return np.pad(img, widths, padding_mode)  # type: ignore[call-overload]
    padded = np.pad(img, widths)
    channels = img.shape[2] if img.ndim == 3 else 1
    color = np.clip(_scalar(fill, channels), *_range(img.dtype)).astype(img.dtype)
    if color.any():
        outside = np.ones(padded.shape[:2], bool)
        outside[border.top : border.top + img.shape[0], border.left : border.left + img.shape[1]] = False
        padded[outside] = color if img.ndim == 3 else color[0]
    return padded


def _range(dtype: Any) -> tuple[float, float]:
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if np.dtype(dtype).kind in "iu" else (-np.inf, np.inf)


def crop(img: np.ndarray, top: int, left: int, height: int, width: int) -> np.ndarray:
    return img[top : top + height, left : left + width]


def hflip(img: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(img[:, ::-1])


def vflip(img: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(img[::-1])


def _looked_up(img: np.ndarray, table: np.ndarray, name: str) -> np.ndarray:
    if img.dtype != np.uint8:
        raise TypeError(f"{name} takes arrays of uint8, got {img.dtype}")
    return table.clip(0, 255).astype("uint8")[img]


def adjust_brightness(img: np.ndarray, factor: float) -> np.ndarray:
    return _looked_up(img, np.arange(256) * factor, "adjust_brightness")


def adjust_contrast(img: np.ndarray, factor: float) -> np.ndarray:
    # Paddle uses 74 as the mean of an image
    return _looked_up(img, (np.arange(256) - 74) * factor + 74, "adjust_contrast")


def adjust_saturation(img: np.ndarray, factor: float) -> np.ndarray:
    # as in Paddle, which draws the factor here and interprets the channels as BGR
    alpha = np.random.uniform(max(0, 1 - factor), 1 + factor)
    values = img.astype(np.float32)
    gray = values @ np.array([0.114, 0.587, 0.299], np.float32)
    mixed = values * np.float32(alpha) + gray[..., np.newaxis] * np.float32(1 - alpha)
    return mixed.clip(0, 255).astype(img.dtype)


def adjust_hue(img: np.ndarray, factor: float) -> np.ndarray:
    cv2 = try_import("cv2")
    hsv = cv2.cvtColor(img.astype(np.uint8), cv2.COLOR_BGR2HSV_FULL)
    hsv[..., 0] = (hsv[..., 0].astype(np.int32) + int(factor * 255)) % 256
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR_FULL).astype(img.dtype)


def _expanded(width: int, height: int, angle: float, center: tuple[float, float]) -> tuple[int, int]:
    """(width, height) of the bounding box of the rotated image."""
    cos, sin = (round(f(-math.radians(angle)), 15) for f in (math.cos, math.sin))
    corners = [(x - center[0], y - center[1]) for x, y in ((0, 0), (width, 0), (width, height), (0, height))]
    xs = [cos * x + sin * y + center[0] for x, y in corners]
    ys = [-sin * x + cos * y + center[1] for x, y in corners]
    return math.ceil(max(xs)) - math.floor(min(xs)), math.ceil(max(ys)) - math.floor(min(ys))


def rotate(img: np.ndarray, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> np.ndarray:
    cv2 = try_import("cv2")
    width, height = size(img)
    center = (width / 2.0, height / 2.0) if center is None else center
    matrix = cv2.getRotationMatrix2D(center, angle, 1)
    if expand:
        columns, rows = _expanded(width, height, angle, center)
        matrix[0, 2] += (columns - width) * 0.5
        matrix[1, 2] += (rows - height) * 0.5
        width, height = columns, rows
    flags = _flag(cv2, interpolation)
    return _like(cv2.warpAffine(img, matrix, (width, height), flags=flags, borderValue=fill), img)


def to_grayscale(img: np.ndarray, channels: int) -> np.ndarray:
    if img.dtype == np.uint8:
        # OpenCV's weights, in units of 2**-15
        gray = ((img.astype(np.int32) @ np.array([9798, 19235, 3735]) + (1 << 14)) >> 15).astype(np.uint8)
    else:
        gray = (img @ np.array([0.299, 0.587, 0.114], img.dtype)).astype(img.dtype)
    gray = gray[:, :, np.newaxis]
    return gray if channels == 1 else np.broadcast_to(gray, (*gray.shape[:2], 3))


def as_array(img: np.ndarray) -> np.ndarray:
    return img
