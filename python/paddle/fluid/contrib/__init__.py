"""fluid.contrib: mixed precision, its optimizer, layers, decoders, files on Hadoop, and what Programs count for."""

from paddle._basics.missing import getter

from . import (
    decoder,
    extend_optimizer,
    layers,
    memory_usage_calc,
    mixed_precision,
    model_stat,
    op_frequence,
    optimizer,
    quantize,
    reader,
    utils,
)
from .decoder import *  # noqa: F403
from .extend_optimizer import *  # noqa: F403
from .layers import *  # noqa: F403
from .memory_usage_calc import *  # noqa: F403
from .mixed_precision import *  # noqa: F403
from .model_stat import *  # noqa: F403
from .op_frequence import *  # noqa: F403
from .optimizer import Momentum
from .quantize import *  # noqa: F403
from .reader import *  # noqa: F403
from .utils import *  # noqa: F403

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
    *extend_optimizer.__all__,
    *decoder.__all__,
    *reader.__all__,
    *utils.__all__,
]

# models that are to be smaller: few scripts ask for these
__getattr__ = getter(__name__, {"slim": "paddle.fluid.contrib.slim"})
