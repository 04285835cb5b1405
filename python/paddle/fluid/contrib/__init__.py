"""fluid.contrib: mixed precision, its optimizer and some layers."""

from . import layers, mixed_precision, optimizer
from .layers import *  # noqa: F403
from .mixed_precision import *  # noqa: F403
from .optimizer import Momentum

__all__ = ["Momentum", "layers", "mixed_precision", "optimizer", *layers.__all__, *mixed_precision.__all__]
