"""paddle.nn: layers, their functions, initializers and gradient clips."""
from paddle._basics.missing import getter as _getter

from . import clip, functional, initializer, layer
from .clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from .decode import BeamSearchDecoder, dynamic_decode
from .layer import *  # noqa: F403
from .layer import (
    activation,
    common,
    conv,
    distance,
    instance_norm,
    loss,
    norm,
    pooling,
    recurrent,
    rnn,
    sync_batch_norm,
    transformer,
    vision,
)

__all__ = [
    "BeamSearchDecoder",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    *layer.__all__,
    "clip",
    "dynamic_decode",
    "functional",
    "initializer",
]

__getattr__ = _getter(__name__, {}, later={"utils": "paddle.nn.utils"})
