"""fluid.contrib.slim: model compression by a Compressor, with distillation and quantization."""

from .core import *  # noqa: F403
from .core import Compressor

__all__ = ["Compressor"]
