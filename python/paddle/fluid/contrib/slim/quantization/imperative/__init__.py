"""Quantization-aware training in dygraph mode."""

from . import qat, quant_nn
from .qat import *  # noqa: F403
from .quant_nn import *  # noqa: F403

__all__ = [*quant_nn.__all__, *qat.__all__]
