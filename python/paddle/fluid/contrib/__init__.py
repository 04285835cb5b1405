"""fluid.contrib: mixed precision, its optimizer, some layers, and what Programs count for."""

from . import layers, memory_usage_calc, mixed_precision, model_stat, op_frequence, optimizer, quantize
from .layers import *  # noqa: F403
from .memory_usage_calc import *  # noqa: F403
from .mixed_precision import *  # noqa: F403
from .model_stat import *  # noqa: F403
from .op_frequence import *  # noqa: F403
from .optimizer import Momentum
from .quantize import *  # noqa: F403

__all__ = [
    "Momentum",
    "layers",
    "mixed_precision",
    "optimizer",
    *layers.__all__,
    *memory_usage_calc.__all__,
    *mixed_precision.__all__,
    *model_stat.__all__,
    *op_frequence.__all__,
    *quantize.__all__,
]
