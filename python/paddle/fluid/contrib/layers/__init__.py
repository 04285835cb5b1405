"""fluid.contrib.layers: layers outside the stable API of 1.x."""

from . import nn
from .images import bilateral_slice
from .nn import *  # noqa: F403

__all__ = ["bilateral_slice", *nn.__all__]
