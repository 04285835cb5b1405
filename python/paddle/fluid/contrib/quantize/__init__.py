"""fluid.contrib.quantize: QuantizeTranspiler."""

from . import quantize_transpiler
from .quantize_transpiler import *  # noqa: F403

__all__ = [*quantize_transpiler.__all__]
