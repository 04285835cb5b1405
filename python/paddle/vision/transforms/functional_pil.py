"""The functions of paddle.vision.transforms for Pillow images."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.tensor import to_tensor as tensor_of
from paddle.utils import try_import

from .geometry import Border, output_size

__all__: list[str] = []


def _filter(interpolation: str) -> Any:
    resampling = try_import("PIL.Image").Resampling
    names = ("nearest", "bilinear", "bicubic", "box", "lanczos", "hamming")
    if interpolation not in names:
        raise KeyError(f"interpolation must be one of {', '.join(names)} for images of Pillow, got {interpolation!r}")
    return getattr(resampling, interpolation.upper())


def _image(array: np.ndarray) -> Any:
    return try_import("PIL.Image").fromarray(array)


def to_tensor(pic: Any, data_format: str) -> Any:
    # dtypes of the modes whose elements are not bytes
    wide = {"I": np.int32, "I;16": np.int32, "F": np.float32}
    pixels: np.ndarray = np.array(pic, wide.get(pic.mode, np.uint8))
    if pic.mode == "1":
        pixels *= 255
    if pixels.dtype == np.uint8:
        pixels = pixels.astype("float32") / np.float32(255)
    pixels = pixels.reshape(pic.size[1], pic.size[0], -1)
    return tensor_of(np.ascontiguousarray(pixels.transpose(2, 0, 1)) if data_format == "CHW" else pixels)


def size(img: Any) -> tuple[int, int]:
    return img.size


def resize(img: Any, wanted: Any, interpolation: str) -> Any:
    width, height = img.size
    found = output_size(width, height, wanted)
    return img if found is None else img.resize(found, _filter(interpolation))


def pad(img: Any, border: Border, fill: Any, padding_mode: str) -> Any:
    palette = img.getpalette() if img.mode == "P" else None
    if padding_mode == "constant":
        sides = (border.left, border.top, border.right, border.bottom)
        padded = try_import("PIL.ImageOps").expand(img, border=sides, fill=fill)
    else:
        pixels = np.asarray(img)
        widths = [(border.top, border.bottom), (border.left, border.right), (0, 0)]
        padded = _image(np.pad(pixels, widths[: pixels.ndim], padding_mode))  # type: ignore[call-overload]
    if palette is not None:
        padded.putpalette(palette)
    return padded


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def hflip(img: Any) -> Any:
    return img.transpose(try_import("PIL.Image").Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    return img.transpose(try_import("PIL.Image").Transpose.FLIP_TOP_BOTTOM)


def adjust_brightness(img: Any, factor: float) -> Any:
    return try_import("PIL.ImageEnhance").Brightness(img).enhance(factor)


def adjust_contrast(img: Any, factor: float) -> Any:
    return try_import("PIL.ImageEnhance").Contrast(img).enhance(factor)


def adjust_saturation(img: Any, factor: float) -> Any:
    return try_import("PIL.ImageEnhance").Color(img).enhance(factor)


def adjust_hue(img: Any, factor: float) -> Any:
    if img.mode in ("L", "1", "I", "F"):
        return img
    hue, saturation, value = img.convert("HSV").split()
    turned = (np.array(hue, np.int32) + int(factor * 255)) % 256
    merged = try_import("PIL.Image").merge("HSV", (_image(turned.astype(np.uint8)), saturation, value))
    return merged.convert(img.mode)


def rotate(img: Any, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> Any:
    if isinstance(fill, int):
        # the color is looked up in the palette
        bands = 3 if img.mode == "P" else len(img.getbands())
        fill = (fill,) * bands if bands > 1 else fill
    return img.rotate(angle, _filter(interpolation), expand, center, fillcolor=fill)


def to_grayscale(img: Any, channels: int) -> Any:
    gray = img.convert("L")
    return gray if channels == 1 else _image(np.dstack([np.array(gray, np.uint8)] * 3))


def as_array(img: Any) -> np.ndarray:
    return np.array(img)
