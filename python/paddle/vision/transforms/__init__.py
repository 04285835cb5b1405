"""paddle.vision.transforms: image transforms as functions and as composable objects."""

from . import functional, transforms
from .functional import *  # noqa: F403
from .transforms import *  # noqa: F403

__all__ = [*functional.__all__, *transforms.__all__]
