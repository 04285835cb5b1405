"""fluid.contrib: so far its optimizer and some layers."""

from . import layers, optimizer
from .layers import *  # noqa: F403
from .optimizer import Momentum

__all__ = ["Momentum", "layers", "optimizer", *layers.__all__]
