"""Image functions for Pillow images, arrays [height, width, channels], or Tensors [channels, height, width]."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

import paddle._core as _core

from . import functional_cv2, functional_pil, functional_tensor
from .geometry import border, center_box

__all__ = [
    "to_tensor",
    "hflip",
    "vflip",
    "resize",
    "pad",
    "rotate",
    "to_grayscale",
    "crop",
    "center_crop",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "normalize",
]


def _is_pil_image(img: Any) -> bool:
    # if Pillow is not imported, no Pillow image exists
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(img, pillow.Image)


def _is_numpy_image(img: Any) -> bool:
    return isinstance(img, np.ndarray) and img.ndim in (2, 3)


def _is_tensor_image(img: Any) -> bool:
    return isinstance(img, _core.Tensor)


def _kind(img: Any, name: str) -> ModuleType:
    """The module that implements the functions for this kind of image."""
    if _is_pil_image(img):
        return functional_pil
    if _is_numpy_image(img):
        return functional_cv2
    if _is_tensor_image(img) and len(img.shape) in (3, 4):
        return functional_tensor
    raise TypeError(
        f"{name}: img should be an image of PIL, an ndarray with dim=[2 or 3], or a Tensor with 3 or 4. Got {type(img)}"
    )


def _size(img: Any, name: str) -> tuple[int, int]:
    """(width, height) of an image."""
    return _kind(img, name).size(img)


def to_tensor(pic: Any, data_format: str = "CHW") -> Any:
    """An image as a Tensor: bytes are scaled to float32 in [0, 1], other types are unchanged.

    Args:
        pic (PIL.Image|numpy.ndarray): [height, width] or [height, width, channels].
        data_format (str): "CHW" or "HWC", the layout of the result.

    Raises:
        TypeError: for another type. ValueError: for another data_format.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> image = np.full([4, 5, 3], 51, "uint8")
        >>> tensor = paddle.vision.transforms.to_tensor(image)
        >>> tensor.shape, tensor.numpy().max()
        ([3, 4, 5], ...0.2...)
    """
    if not _is_pil_image(pic) and not _is_numpy_image(pic):
        raise TypeError(f"to_tensor: pic should be an image of PIL or an ndarray. Got {type(pic)}")
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"data_format should be CHW or HWC. Got {data_format!r:.200}")
    return _kind(pic, "to_tensor").to_tensor(pic, data_format)


def resize(img: Any, size: Any, interpolation: str = "bilinear") -> Any:
    """Resizes an image.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image; arrays require OpenCV.
        size (int|list|tuple): (height, width), or the length of the shorter side.
        interpolation (str): "nearest", "bilinear", "bicubic", and for PIL "box", "lanczos", "hamming", for arrays
            "area", "lanczos".

    Raises:
        TypeError: for another type of image or size.

    Examples:
        >>> import paddle
        >>> paddle.vision.transforms.resize(paddle.ones([3, 4, 4]), 4).shape
        [3, 4, 4]
    """
    return _kind(img, "resize").resize(img, size, interpolation)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Pads an image.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image.
        padding (int|list|tuple): for all sides; (left and right, top and bottom); or (left, top, right, bottom).
        fill (number|tuple): the color of a constant border. A number sets the first channel, and the others to 0, as in
            Pillow and OpenCV; for Tensors it sets all channels.
        padding_mode (str): "constant", "edge" (repeats the border pixel), "reflect" (mirrors without repeating it) or
            "symmetric" (mirrors with repeating it; not for Tensors).

    Raises:
        TypeError, ValueError, AssertionError: for other arguments.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.pad(np.array([[1, 2, 3]], "uint8"), (2, 0), padding_mode="reflect").tolist()
        [[3, 2, 1, 2, 3, 2, 1]]
    """
    kind = _kind(img, "pad")
    return kind.pad(img, border(padding, fill, padding_mode), fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Crops a box from an image.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image.
        top, left (int): position of the box; (0, 0) is the top left corner of the image.
        height, width (int): size of the box.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.crop(np.arange(12).reshape(3, 4), 1, 1, 2, 2).tolist()
        [[5, 6], [9, 10]]
    """
    return _kind(img, "crop").crop(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """Crops the center of an image.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image.
        output_size (int|list|tuple): (height, width), or one number for both.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.center_crop(np.arange(16).reshape(4, 4), 2).tolist()
        [[5, 6], [9, 10]]
    """
    kind = _kind(img, "center_crop")
    width, height = kind.size(img)
    return kind.crop(img, *center_box(width, height, output_size))


def hflip(img: Any) -> Any:
    """Flips an image horizontally.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.hflip(np.array([[1, 2, 3]])).tolist()
        [[3, 2, 1]]
    """
    return _kind(img, "hflip").hflip(img)


def vflip(img: Any) -> Any:
    """Flips an image vertically.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.vflip(np.array([[1], [2]])).tolist()
        [[2], [1]]
    """
    return _kind(img, "vflip").vflip(img)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Scales all values of an image.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image; arrays of uint8.
        brightness_factor (float): 0 gives a black image, 1 the original, 2 doubles the values.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.adjust_brightness(np.array([[10, 200]], "uint8"), 1.5).tolist()
        [[15, 255]]
    """
    return _kind(img, "adjust_brightness").adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Scales the difference of an image to gray.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image; arrays of uint8, with gray level 74.
        contrast_factor (float): 0 gives a gray image, 1 the original, 2 doubles the differences.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.adjust_contrast(np.array([[74, 100]], "uint8"), 0.5).tolist()
        [[74, 87]]
    """
    return _kind(img, "adjust_contrast").adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Scales the saturation of an image.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image.
        saturation_factor (float): 0 gives a gray image, 1 the original, 2 doubles the saturation. For arrays, as in
            Paddle, the factor is drawn by numpy from [max(0, 1 - saturation_factor), 1 + saturation_factor].
    """
    return _kind(img, "adjust_saturation").adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Shifts the hue of an image.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image; arrays require OpenCV.
        hue_factor (float): in [-0.5, 0.5], a fraction of the color circle.

    Raises:
        ValueError: for another factor.
    """
    kind = _kind(img, "adjust_hue")
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor is not in [-0.5, 0.5], got {hue_factor}")
    return kind.adjust_hue(img, hue_factor)


def rotate(
    img: Any, angle: float, interpolation: str = "nearest", expand: bool = False, center: Any = None, fill: Any = 0
) -> Any:
    """Rotates an image counterclockwise.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image; arrays require OpenCV.
        angle (float): in degrees.
        interpolation (str): "nearest", "bilinear" or "bicubic"; for Tensors the first two.
        expand (bool): enlarge the result to hold the whole rotated image.
        center (tuple, optional): (x, y) of the fixed point; the center of the image when None.
        fill (number|tuple): the color outside of the image.
    """
    return _kind(img, "rotate").rotate(img, angle, interpolation, expand, center, fill)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Converts an image to grayscale.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an RGB image.
        num_output_channels (int): 1, or 3 equal channels.

    Raises:
        ValueError: for another number.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.to_grayscale(np.array([[[255, 0, 0]]], "uint8")).tolist()
        [[[76]]]
    """
    kind = _kind(img, "to_grayscale")
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels should be either 1 or 3, got {num_output_channels!r:.200}")
    return kind.to_grayscale(img, num_output_channels)


def normalize(img: Any, mean: Any, std: Any, data_format: str = "CHW", to_rgb: bool = False) -> Any:
    """(img - mean) / std, per channel.

    Args:
        img (PIL.Image|numpy.ndarray|Tensor): an image.
        mean, std (list|tuple): a number per channel.
        data_format (str): "CHW" or "HWC", the layout of the image.
        to_rgb (bool): reverse the last dimension first, which converts BGR to RGB.

    Returns:
        Tensor for a Tensor, else a float32 array.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.normalize(np.full([1, 1, 2], 3.0, "float32"), [1], [4]).tolist()
        [[[0.5, 0.5]]]
    """
    kind = _kind(img, "normalize")
    shape = (-1, 1, 1) if data_format == "CHW" else (1, 1, -1)
    means, stds = (np.asarray(v, np.float32).reshape(shape) for v in (mean, std))
    if kind is functional_tensor:
        return (functional_tensor.floats(img) - _core.Tensor(means)) / _core.Tensor(stds)
    pixels = kind.as_array(img)
    if to_rgb:
        pixels = pixels[..., ::-1]
    return (pixels - means) / stds
