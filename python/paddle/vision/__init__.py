"""paddle.vision: models, transforms and image data sets."""

from . import datasets, image, models, ops, transforms
from .datasets import *  # noqa: F403
from .image import get_image_backend, image_load, set_image_backend
from .models import *  # noqa: F403
from .transforms import *  # noqa: F403

__all__ = [*models.__all__, *transforms.__all__, *datasets.__all__, *image.__all__]
