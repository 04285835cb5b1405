"""paddle.vision.transforms: of images, as functions and as objects to be put into a row."""

from . import functional, transforms
from .functional import *  # noqa: F403
from .transforms import *  # noqa: F403

__all__ = [*functional.__all__, *transforms.__all__]
