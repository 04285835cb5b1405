"""fluid.contrib: mixed precision, decoders, HDFS files, statistics of Programs, and experimental layers."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from paddle.incubate.reader import distributed_batch_reader
from paddle.static.amp import (
    AutoMixedPrecisionLists,
    CustomOpLists,
    cast_model_to_fp16,
    cast_parameters_to_fp16,
    decorate,
    fp16_guard,
)

from . import decoder, extend_optimizer, layers, memory_usage_calc, model_stat, op_frequence, optimizer, quantize, utils
from .decoder import *  # noqa: F403
from .extend_optimizer import *  # noqa: F403
from .layers import *  # noqa: F403
from .memory_usage_calc import *  # noqa: F403
from .model_stat import *  # noqa: F403
from .op_frequence import *  # noqa: F403
from .optimizer import Momentum
from .quantize import *  # noqa: F403
from .utils import *  # noqa: F403

if _TYPE_CHECKING:  # modules of the table of legacy names, which the import hook makes
    from paddle.incubate import reader as reader
    from paddle.static import amp as mixed_precision

    from . import slim as slim

__all__ = [
    "Momentum",
    "layers",
    "mixed_precision",
    "optimizer",
    *layers.__all__,
    *memory_usage_calc.__all__,
    "decorate",
    "AutoMixedPrecisionLists",
    "CustomOpLists",
    "fp16_guard",
    "cast_model_to_fp16",
    "cast_parameters_to_fp16",
    *model_stat.__all__,
    *op_frequence.__all__,
    *quantize.__all__,
    *extend_optimizer.__all__,
    *decoder.__all__,
    "distributed_batch_reader",
    *utils.__all__,
]
