"""paddle.nn: layers, functional operations, initializers and gradient clipping."""

from paddle._basics.missing import getter as _getter

from . import clip, functional, initializer
from .clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from .decode import BeamSearchDecoder, dynamic_decode
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
from .layer.activation import *  # noqa: F403
from .layer.common import *  # noqa: F403
from .layer.container import LayerList, ParameterList, Sequential
from .layer.conv import *  # noqa: F403
from .layer.ctc import CTCLoss
from .layer.distance import PairwiseDistance
from .layer.instance_norm import *  # noqa: F403
from .layer.layers import Layer
from .layer.loss import *  # noqa: F403
from .layer.norm import *  # noqa: F403
from .layer.pooling import *  # noqa: F403
from .layer.recurrent import *  # noqa: F403
from .layer.rnn import *  # noqa: F403
from .layer.sync_batch_norm import *  # noqa: F403
from .layer.transformer import *  # noqa: F403
from .layer.vision import *  # noqa: F403

__all__ = [
    "BeamSearchDecoder",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "CTCLoss",
    "ClipGradByValue",
    "Layer",
    "LayerList",
    "PairwiseDistance",
    "ParameterList",
    "Sequential",
    *activation.__all__,
    *common.__all__,
    *conv.__all__,
    *instance_norm.__all__,
    *loss.__all__,
    *norm.__all__,
    *pooling.__all__,
    *recurrent.__all__,
    *rnn.__all__,
    *sync_batch_norm.__all__,
    *transformer.__all__,
    *vision.__all__,
    "clip",
    "dynamic_decode",
    "functional",
    "initializer",
]

__getattr__ = _getter(__name__, later={"utils": "paddle.nn.utils"})
