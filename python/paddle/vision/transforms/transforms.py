"""Geometric transforms, type conversion and normalization."""

from __future__ import annotations

import math
import numbers
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from . import functional as F
from .base import BaseTransform, Compose
from .color import (
    BrightnessTransform,
    ColorJitter,
    ContrastTransform,
    Grayscale,
    HueTransform,
    SaturationTransform,
)
from .geometry import border

__all__ = [
    "BaseTransform",
    "Compose",
    "Resize",
    "RandomResizedCrop",
    "CenterCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "Transpose",
    "Normalize",
    "BrightnessTransform",
    "SaturationTransform",
    "ContrastTransform",
    "HueTransform",
    "ColorJitter",
    "RandomCrop",
    "Pad",
    "RandomRotation",
    "Grayscale",
    "ToTensor",
]


def _get_image_size(img: Any) -> tuple[int, int]:
    """(width, height)."""
    return F._size(img, "a transform")


def _pair(size: Any) -> Any:
    return (int(size), int(size)) if isinstance(size, numbers.Number) else size  # type: ignore[call-overload]


class ToTensor(BaseTransform):
    """Converts an image to a Tensor: bytes are scaled to float32 in [0, 1].

    Args:
        data_format (str): "CHW" or "HWC", the layout of the result.
        keys (list|tuple, optional): see BaseTransform.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.ToTensor()(np.zeros([4, 5, 3], "uint8")).shape
        [3, 4, 5]
    """

    def __init__(self, data_format: str = "CHW", keys: Any = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, img: Any) -> Any:
        return F.to_tensor(img, self.data_format)


class Resize(BaseTransform):
    """Resizes an image.

    Args:
        size (int|list|tuple): (height, width), or the length of the shorter side.
        interpolation (str): see :func:`resize`.
        keys (list|tuple, optional): see BaseTransform.
    """

    def __init__(self, size: Any, interpolation: str = "bilinear", keys: Any = None) -> None:
        super().__init__(keys)
        assert isinstance(size, int) or (isinstance(size, Iterable) and len(list(size)) == 2), (
            f"Resize: size must be an int, or height and width, got {size!r:.200}"
        )
        self.size = size
        self.interpolation = interpolation

    def _apply_image(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation)


class RandomResizedCrop(BaseTransform):
    """Crops a random box and resizes it.

    Args:
        size (int|list|tuple): (height, width) of the result, or one number for both.
        scale (list|tuple): smallest and largest fraction of the image's area.
        ratio (list|tuple): smallest and largest ratio of width to height.
        interpolation (str): see :func:`resize`.
        keys (list|tuple, optional): see BaseTransform.
    """

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.size = (size, size) if isinstance(size, int) else size
        assert scale[0] <= scale[1], f"scale should be of kind (min, max), got {scale}"
        assert ratio[0] <= ratio[1], f"ratio should be of kind (min, max), got {ratio}"
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation

    def _get_param(self, image: Any, attempts: int = 10) -> tuple[int, int, int, int]:
        """(top, left, height, width) of the box."""
        width, height = _get_image_size(image)
        narrow, wide = (math.log(r) for r in self.ratio)
        for _ in range(attempts):
            # area and ratio are drawn by numpy, the position by Python's random, as in Paddle (same boxes per seed)
            area = np.random.uniform(*self.scale) * (height * width)
            ratio = math.exp(np.random.uniform(narrow, wide))
            columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < columns <= width and 0 < rows <= height:
                top = random.randint(0, height - rows)
                return top, random.randint(0, width - columns), rows, columns
        # no box found: the largest centered box with an allowed ratio
        columns, rows = width, height
        if width / height < min(self.ratio):
            rows = round(width / min(self.ratio))
        elif width / height > max(self.ratio):
            columns = round(height * max(self.ratio))
        return (height - rows) // 2, (width - columns) // 2, rows, columns

    def _apply_image(self, img: Any) -> Any:
        return F.resize(F.crop(img, *self._get_param(img)), self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """Crops the center.

    Args:
        size (int|list|tuple): (height, width), or one number for both.
        keys (list|tuple, optional): see BaseTransform.
    """

    def __init__(self, size: Any, keys: Any = None) -> None:
        super().__init__(keys)
        self.size = _pair(size)

    def _apply_image(self, img: Any) -> Any:
        return F.center_crop(img, self.size)


class _RandomFlip(BaseTransform):
    """A flip with probability `prob`."""

    _flip: Callable[..., Any]

    def __init__(self, prob: float = 0.5, keys: Any = None) -> None:
        super().__init__(keys)
        self.prob = prob

    def _apply_image(self, img: Any) -> Any:
        return self._flip(img) if random.random() < self.prob else img


class RandomHorizontalFlip(_RandomFlip):
    """Flips an image horizontally with a given probability.

    Args:
        prob (float): the probability.
        keys (list|tuple, optional): see BaseTransform.
    """

    _flip = staticmethod(F.hflip)


class RandomVerticalFlip(_RandomFlip):
    """Flips an image vertically with a given probability.

    Args:
        prob (float): the probability.
        keys (list|tuple, optional): see BaseTransform.
    """

    _flip = staticmethod(F.vflip)


class Normalize(BaseTransform):
    """(image - mean) / std.

    Args:
        mean, std (float|list|tuple): a number for each of three channels, or one for all of them.
        data_format (str): "CHW" or "HWC", the layout of the image.
        to_rgb (bool): reverse the last dimension first.
        keys (list|tuple, optional): see BaseTransform.
    """

    def __init__(
        self, mean: Any = 0.0, std: Any = 1.0, data_format: str = "CHW", to_rgb: bool = False, keys: Any = None
    ) -> None:
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, numbers.Number) else mean
        self.std = [std] * 3 if isinstance(std, numbers.Number) else std
        self.data_format = data_format
        self.to_rgb = to_rgb

    def _apply_image(self, img: Any) -> Any:
        return F.normalize(img, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """Converts an image to an array with permuted dimensions.

    Args:
        order (list|tuple): permutation of [height, width, channels].
        keys (list|tuple, optional): see BaseTransform.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.Transpose()(np.zeros([4, 5, 3])).shape
        (3, 4, 5)
    """

    def __init__(self, order: Any = (2, 0, 1), keys: Any = None) -> None:
        super().__init__(keys)
        self.order = order

    def _apply_image(self, img: Any) -> Any:
        if F._is_tensor_image(img):
            return img.transpose(list(self.order))
        img = np.asarray(img)
        if img.ndim == 2:
            img = img[..., np.newaxis]
        return img.transpose(self.order)


class RandomCrop(BaseTransform):
    """Crops a box at a random position.

    Args:
        size (int|list|tuple): (height, width), or one number for both.
        padding (int|list|tuple, optional): padding added first, see :func:`pad`.
        pad_if_needed (bool): pad images that are smaller than the box.
        fill, padding_mode: see :func:`pad`.
        keys (list|tuple, optional): see BaseTransform.

    Raises:
        ValueError: when called with an image that is smaller than the box.
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.size = _pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def _get_param(self, img: Any, output_size: Any) -> tuple[int, int, int, int]:
        width, height = _get_image_size(img)
        rows, columns = output_size
        if (height, width) == (rows, columns):
            return 0, 0, height, width
        if rows > height or columns > width:
            raise ValueError(
                f"RandomCrop: a box of {rows} x {columns} does not fit into an image of {height} x {width}; "
                "pad_if_needed=True adds a border"
            )
        return random.randint(0, height - rows), random.randint(0, width - columns), rows, columns

    def _apply_image(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        width, height = _get_image_size(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, (self.size[1] - width, 0), self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, (0, self.size[0] - height), self.fill, self.padding_mode)
        return F.crop(img, *self._get_param(img, self.size))


class Pad(BaseTransform):
    """Pads an image.

    Args:
        padding, fill, padding_mode: see :func:`pad`.
        keys (list|tuple, optional): see BaseTransform.
    """

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant", keys: Any = None) -> None:
        border(padding, fill, padding_mode)  # checks the arguments
        super().__init__(keys)
        self.padding = tuple(padding) if isinstance(padding, list) else padding
        self.fill = tuple(fill) if isinstance(fill, list) else fill
        self.padding_mode = padding_mode

    def _apply_image(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomRotation(BaseTransform):
    """Rotates an image by a random angle.

    Args:
        degrees (float|list|tuple): smallest and largest angle; a number d means (-d, d).
        interpolation, expand, center, fill: see :func:`rotate`.
        keys (list|tuple, optional): see BaseTransform.

    Raises:
        ValueError: for a negative number, or a list whose length is not two.
    """

    def __init__(
        self,
        degrees: Any,
        interpolation: str = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        keys: Any = None,
    ) -> None:
        if isinstance(degrees, numbers.Number):
            if degrees < 0:  # type: ignore[operator]
                raise ValueError(f"If degrees is a single number, it must be positive, got {degrees}")
            degrees = (-degrees, degrees)  # type: ignore[operator]
        elif not isinstance(degrees, Sequence) or len(degrees) != 2:
            raise ValueError(f"If degrees is a sequence, it must be of len 2, got {degrees!r:.200}")
        super().__init__(keys)
        self.degrees = degrees
        self.interpolation = interpolation
        self.expand = expand
        self.center = center
        self.fill = fill

    def _get_param(self, degrees: Any) -> float:
        return random.uniform(degrees[0], degrees[1])

    def _apply_image(self, img: Any) -> Any:
        angle = self._get_param(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)
