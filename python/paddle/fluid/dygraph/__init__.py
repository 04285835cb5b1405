"""fluid.dygraph: dygraph mode by its 1.x names."""

from paddle._basics.tracer import Tracer  # noqa: F401 (outside __all__)
from paddle.tensor.tensor import monkey_patch_math_varbase  # noqa: F401

from . import (
    amp,
    base,
    checkpoint,
    container,
    jit,
    layers,
    learning_rate_scheduler,
    loss,
    nce,
    nn,
    norms,
    parallel,
    rnn,
)
from .amp import AmpScaler, amp_guard
from .base import *  # noqa: F403
from .checkpoint import load_dygraph, save_dygraph
from .container import LayerList, ParameterList, Sequential
from .jit import TracedLayer
from .layers import Layer
from .learning_rate_scheduler import *  # noqa: F403
from .loss import *  # noqa: F403
from .nn import *  # noqa: F403
from .parallel import DataParallel, ParallelEnv, prepare_context
from .rnn import *  # noqa: F403

__all__ = [
    *base.__all__,
    *loss.__all__,
    *nn.__all__,
    *(name for name in rnn.__all__ if name not in nn.__all__),
    *learning_rate_scheduler.__all__,
    "AmpScaler",
    "amp_guard",
    "TracedLayer",
    "Layer",
    "LayerList",
    "ParameterList",
    "Sequential",
    "DataParallel",
    "ParallelEnv",
    "prepare_context",
    "load_dygraph",
    "save_dygraph",
]
