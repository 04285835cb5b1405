"""fluid.contrib: so far its optimizer and bilateral_slice."""

from . import layers, optimizer
from .layers import bilateral_slice
from .optimizer import Momentum

__all__ = ["Momentum", "bilateral_slice", "layers", "optimizer"]
