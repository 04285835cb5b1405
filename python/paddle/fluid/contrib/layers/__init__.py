"""fluid.contrib.layers: layers outside the stable API of 1.x."""

from . import nn, rnn_impl
from .images import bilateral_slice
from .nn import *  # noqa: F403
from .rnn_impl import *  # noqa: F403

__all__ = ["bilateral_slice", *nn.__all__, *rnn_impl.__all__]
