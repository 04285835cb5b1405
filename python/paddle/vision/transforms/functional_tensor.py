"""The functions of paddle.vision.transforms for Tensors: [channels, height, width], or a batch of them.

Paddle has them since 2.1. Values are computed by operators, so that gradients flow through.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddle._basics.element_types import HALF_FLOATS
from paddle.nn import functional as F
from paddle.tensor import cast, clip, concat, flip, full_like, stack, to_tensor, unsqueeze, where

from .geometry import Border, output_size

__all__: list[str] = []


def _type(img: Any) -> str:
    return str(img.numpy().dtype)


def floats(img: Any) -> Any:
    return img if _type(img) in HALF_FLOATS else cast(img, "float32")


def _channels(img: Any, name: str) -> int:
    found = img.shape[-3]
    if found not in (1, 3):
        raise ValueError(f"{name}: channels of input should be either 1 or 3, got {found}")
    return found


def _as(values: Any, img: Any) -> Any:
    """Values in [0, white], converted to the type of `img`."""
    dtype = _type(img)
    values = clip(values, 0.0, 1.0 if dtype in HALF_FLOATS else 255.0)
    return values if dtype in HALF_FLOATS else cast(values, dtype)


def _mixed(img: Any, other: Any, factor: float) -> Any:
    """factor * img + (1 - factor) * other."""
    return _as(other + (floats(img) - other) * float(factor), img)


def size(img: Any) -> tuple[int, int]:
    return img.shape[-1], img.shape[-2]


def resize(img: Any, wanted: Any, interpolation: str) -> Any:
    found = output_size(*size(img), wanted)
    if found is None:
        return img
    single = len(img.shape) == 3
    out = F.interpolate(unsqueeze(img, 0) if single else img, size=[found[1], found[0]], mode=interpolation)
    return out[0] if single else out


def pad(img: Any, border: Border, fill: Any, padding_mode: str) -> Any:
    if padding_mode == "symmetric":
        raise ValueError("pad: Tensors cannot be padded in the mode symmetric")
    single = len(img.shape) == 3
    sides = [border.left, border.right, border.top, border.bottom]
    mode = "replicate" if padding_mode == "edge" else padding_mode
    out = F.pad(unsqueeze(img, 0) if single else img, sides, mode=mode, value=float(fill), data_format="NCHW")
    return out[0] if single else out


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img[..., top : top + height, left : left + width]


def hflip(img: Any) -> Any:
    return flip(img, [len(img.shape) - 1])


def vflip(img: Any) -> Any:
    return flip(img, [len(img.shape) - 2])


def _gray(img: Any) -> Any:
    values = floats(img)
    weights = to_tensor(np.array([0.2989, 0.5870, 0.1140], _type(values)).reshape(3, 1, 1))
    return (values * weights).sum(axis=-3, keepdim=True)


def adjust_brightness(img: Any, factor: float) -> Any:
    _channels(img, "adjust_brightness")
    return _as(floats(img) * float(factor), img)


def adjust_contrast(img: Any, factor: float) -> Any:
    gray = _gray(img) if _channels(img, "adjust_contrast") == 3 else floats(img)
    if _type(img) not in HALF_FLOATS:
        gray = gray.floor()  # gray values of this type are integers
    return _mixed(img, gray.mean(axis=[-3, -2, -1], keepdim=True), factor)


def adjust_saturation(img: Any, factor: float) -> Any:
    return img if _channels(img, "adjust_saturation") == 1 else _mixed(img, _gray(img), factor)


def adjust_hue(img: Any, factor: float) -> Any:
    if _channels(img, "adjust_hue") == 1:
        return img
    whole = _type(img) not in HALF_FLOATS
    values = floats(img) / 255.0 if whole else img
    red, green, blue = (values[..., i, :, :] for i in range(3))
    most = values.max(axis=-3)
    chroma = most - values.min(axis=-3)
    is_gray = chroma == 0.0
    one = full_like(most, 1.0)
    saturation = chroma / where(is_gray, one, most)
    chroma = where(is_gray, one, chroma)
    far = [(most - channel) / chroma for channel in (red, green, blue)]
    turned = where(most == red, far[2] - far[1], where(most == green, far[0] - far[2] + 2.0, far[1] - far[0] + 4.0))
    turned = turned / 6.0 + 1.0
    turned = turned - turned.floor() + float(factor)
    turned = (turned - turned.floor()) * 6.0
    sixth = turned.floor()
    rest = turned - sixth
    low = clip(most * (1.0 - saturation), 0.0, 1.0)
    falling = clip(most * (1.0 - saturation * rest), 0.0, 1.0)
    rising = clip(most * (1.0 - saturation * (1.0 - rest)), 0.0, 1.0)
    # red by sixths of the color circle; green is shifted by two sixths, blue by four
    cycle = [most, falling, low, low, rising, most]
    channels = []
    for shift in (0, 4, 2):
        channel = cycle[(5 + shift) % 6]
        for k in range(5):
            channel = where(sixth == float(k), cycle[(k + shift) % 6], channel)
        channels.append(channel)
    out = stack(channels, axis=-3)
    return cast(out * 255.0, _type(img)) if whole else out


def rotate(img: Any, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> Any:
    width, height = size(img)
    turn = math.radians(-angle % 360)
    cos, sin = math.cos(turn), math.sin(turn)
    x, y = (0.0, 0.0) if center is None else (center[0] - width * 0.5, center[1] - height * 0.5)
    matrix = np.array([[cos, sin, x - cos * x - sin * y], [-sin, cos, y + sin * x - cos * y]], "float32")
    columns, rows = width, height
    if expand:
        corners = np.array([[sx * width, sy * height, 1.0] for sx in (-0.5, 0.5) for sy in (-0.5, 0.5)], "float32")
        found = corners @ matrix.T
        columns, rows = (int(n) for n in np.ceil(found.max(0)) - np.floor(found.min(0)))
    base = np.ones((rows, columns, 3), "float32")
    base[..., 0] = np.arange(columns, dtype="float32") - columns * 0.5 + 0.5
    base[..., 1] = (np.arange(rows, dtype="float32") - rows * 0.5 + 0.5)[:, None]
    grid = base @ (matrix.T / np.array([0.5 * width, 0.5 * height], "float32"))
    single = len(img.shape) == 3
    images = unsqueeze(img, 0) if single else img
    grids = to_tensor(np.ascontiguousarray(np.broadcast_to(grid, (images.shape[0], *grid.shape))))
    colors = images.shape[1]
    inside = full_like(images[:, :1], 1.0)  # rotated along with the image: a mask of the valid area
    out = F.grid_sample(
        concat([images, inside], axis=1), grids, mode=interpolation, padding_mode="zeros", align_corners=False
    )
    out, inside = out[:, :colors], out[:, colors:]
    if fill is not None:
        color = np.broadcast_to(np.array(fill, "float32").reshape(-1, 1, 1), (colors, 1, 1))
        if interpolation == "nearest":
            inside = cast(inside >= 0.5, "float32")
        out = out * inside + (1.0 - inside) * to_tensor(np.ascontiguousarray(color))
    return out[0] if single else out


def to_grayscale(img: Any, channels: int) -> Any:
    gray = _gray(img)
    if _type(img) not in HALF_FLOATS:
        gray = cast(gray, _type(img))
    return gray if channels == 1 else concat([gray] * 3, axis=-3)


def as_array(img: Any) -> np.ndarray:
    return img.numpy()
