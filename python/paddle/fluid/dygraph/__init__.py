"""fluid.dygraph: dygraph mode under the names of 1.x."""

from paddle._basics.tracer import Tracer  # noqa: F401 (outside __all__)
from paddle.amp import AmpScaler, amp_guard
from paddle.fluid.lr_decay import decays, epochs
from paddle.fluid.lr_decay.decays import *  # noqa: F403
from paddle.fluid.lr_decay.epochs import *  # noqa: F403
from paddle.jit.decorators import declarative, dygraph_to_static_func, not_to_static
from paddle.jit.dy2static.logging_utils import set_code_level, set_verbosity
from paddle.jit.loading import load
from paddle.jit.program_translator import ProgramTranslator
from paddle.jit.saving import save
from paddle.jit.traced import TracedLayer
from paddle.jit.translated_layer import TranslatedLayer  # noqa: F401 (outside __all__)
from paddle.nn.layer.container import LayerList, ParameterList, Sequential
from paddle.nn.layer.layers import Layer
from paddle.tensor.tensor import monkey_patch_math_varbase  # noqa: F401

from . import base, checkpoint, nn, parallel, rnn
from .base import *  # noqa: F403
from .checkpoint import load_dygraph, save_dygraph
from .nn import *  # noqa: F403
from .nn import loss
from .nn.loss import *  # noqa: F403
from .parallel import DataParallel, ParallelEnv, prepare_context
from .rnn import *  # noqa: F403
from .static_runner import StaticModelRunner  # noqa: F401 (outside __all__)

__all__ = [
    *base.__all__,
    *loss.__all__,
    *nn.__all__,
    *(name for name in rnn.__all__ if name not in nn.__all__),
    *decays.__all__,
    *epochs.__all__,
    "AmpScaler",
    "amp_guard",
    "TracedLayer",
    "ProgramTranslator",
    "declarative",
    "dygraph_to_static_func",
    "not_to_static",
    "set_code_level",
    "set_verbosity",
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
