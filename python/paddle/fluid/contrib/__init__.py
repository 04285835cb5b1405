"""fluid.contrib: so far its optimizer."""

from . import optimizer
from .optimizer import Momentum

__all__ = ["Momentum", "optimizer"]
