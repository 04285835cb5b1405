"""Color transforms."""

from __future__ import annotations

import numbers
import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from . import functional as F
from .base import BaseTransform, Compose

__all__ = [
    "BrightnessTransform",
    "ContrastTransform",
    "SaturationTransform",
    "HueTransform",
    "ColorJitter",
    "Grayscale",
]


def _limits(
    value: Any, name: str, center: float = 1, bound: tuple[float, float] = (0, float("inf")), positive: bool = True
) -> list[float] | None:
    """The smallest and the largest factor; None if the image is unchanged."""
    if isinstance(value, numbers.Number):
        if value < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be non negative, got {value}")
        value = [center - value, center + value]  # type: ignore[operator]
        if positive:
            value[0] = max(value[0], 0)
    elif not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2, got {value!r:.200}")
    if not bound[0] <= value[0] <= value[1] <= bound[1]:
        raise ValueError(f"{name} values should be between {bound}, got {value}")
    return None if value[0] == value[1] == center else list(value)


class _Factor(BaseTransform):
    """A function of the image and a random factor, drawn for each call."""

    #: the function that applies the factor
    _what: ClassVar[str]
    _function: Callable[..., Any]
    #: further arguments of :func:`_limits`
    _range: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, value: Any, keys: Any = None) -> None:
        super().__init__(keys)
        self.value = _limits(value, self._what, **self._range)

    def _apply_image(self, img: Any) -> Any:
        return img if self.value is None else self._function(img, random.uniform(self.value[0], self.value[1]))


class BrightnessTransform(_Factor):
    """Scales the brightness by a factor drawn from [max(0, 1 - value), 1 + value].

    Args:
        value (float|list): not negative; or the smallest and the largest factor.
        keys (list|tuple, optional): see BaseTransform.

    Raises:
        ValueError, TypeError: for another value.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.vision.transforms.BrightnessTransform([2, 2])(np.array([[7]], "uint8")).tolist()
        [[14]]
    """

    _what = "brightness"
    _function = staticmethod(F.adjust_brightness)


class ContrastTransform(_Factor):
    """Scales the contrast by a factor drawn from [max(0, 1 - value), 1 + value].

    Args:
        value (float|list): not negative; or the smallest and the largest factor.
        keys (list|tuple, optional): see BaseTransform.

    Raises:
        ValueError, TypeError: for another value.
    """

    _what = "contrast"
    _function = staticmethod(F.adjust_contrast)


class SaturationTransform(_Factor):
    """Scales the saturation by a factor drawn from [max(0, 1 - value), 1 + value].

    Args:
        value (float|list): not negative; or the smallest and the largest factor.
        keys (list|tuple, optional): see BaseTransform.

    Raises:
        ValueError, TypeError: for another value.
    """

    _what = "saturation"
    _function = staticmethod(F.adjust_saturation)


class HueTransform(_Factor):
    """Shifts the hue by a fraction of the color circle drawn from [-value, value].

    Args:
        value (float|list): in [0, 0.5]; or the smallest and the largest shift, in [-0.5, 0.5].
        keys (list|tuple, optional): see BaseTransform.

    Raises:
        ValueError, TypeError: for another value.
    """

    _what = "hue"
    _function = staticmethod(F.adjust_hue)
    _range = {"center": 0, "bound": (-0.5, 0.5), "positive": False}


class ColorJitter(BaseTransform):
    """BrightnessTransform, ContrastTransform, SaturationTransform and HueTransform, in random order.

    Args:
        brightness, contrast, saturation, hue (float): the argument of each.
        keys (list|tuple, optional): see BaseTransform.
    """

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0, keys: Any = None
    ) -> None:
        super().__init__(keys)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue

    def _get_param(self, brightness: Any, contrast: Any, saturation: Any, hue: Any) -> Compose:
        pairs = [
            (BrightnessTransform, brightness),
            (ContrastTransform, contrast),
            (SaturationTransform, saturation),
            (HueTransform, hue),
        ]
        transforms = [kind(value, self.keys) for kind, value in pairs if value is not None]
        random.shuffle(transforms)
        return Compose(transforms)

    def _apply_image(self, img: Any) -> Any:
        return self._get_param(self.brightness, self.contrast, self.saturation, self.hue)(img)


class Grayscale(BaseTransform):
    """Converts an image to grayscale.

    Args:
        num_output_channels (int): 1, or 3 equal channels.
        keys (list|tuple, optional): see BaseTransform.
    """

    def __init__(self, num_output_channels: int = 1, keys: Any = None) -> None:
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, img: Any) -> Any:
        return F.to_grayscale(img, self.num_output_channels)
