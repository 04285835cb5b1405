"""The layer classes of paddle.nn."""

from . import (
    activation,
    common,
    conv,
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
from .activation import *  # noqa: F403
from .common import *  # noqa: F403
from .container import LayerList, ParameterList, Sequential
from .conv import *  # noqa: F403
from .ctc import CTCLoss
from .distance import PairwiseDistance
from .instance_norm import *  # noqa: F403
from .layers import Layer
from .loss import *  # noqa: F403
from .norm import *  # noqa: F403
from .pooling import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .rnn import *  # noqa: F403
from .sync_batch_norm import *  # noqa: F403
from .transformer import *  # noqa: F403
from .vision import *  # noqa: F403

__all__ = [
    "CTCLoss",
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
]
