"""fluid.layers: the layer functions of Paddle 1.x.

Names are imported from the files that define them: mypy does not follow a star import through a computed `__all__`.
"""

from paddle.static.metric import accuracy, auc

from . import (
    collective,
    control_flow,
    deprecated,
    detection,
    device,
    distributions,
    io,
    learning_rate_scheduler,
    loss,
    nn,
    ops,
    removed_in_1x,
    sequence_lod,
    tensor,
    utils,
)
from .control_flow import *  # noqa: F403
from .detection.losses import *  # noqa: F403
from .detection.nms import *  # noqa: F403
from .detection.priors import *  # noqa: F403
from .detection.proposals import *  # noqa: F403
from .detection.targets import *  # noqa: F403
from .distributions import *  # noqa: F403
from .io import *  # noqa: F403
from .learning_rate_scheduler import *  # noqa: F403
from .loss import *  # noqa: F403
from .nn.common import *  # noqa: F403
from .nn.conv_pool import *  # noqa: F403
from .nn.ctr import *  # noqa: F403
from .nn.image import *  # noqa: F403
from .nn.indexing import *  # noqa: F403
from .nn.manipulation import *  # noqa: F403
from .nn.math import *  # noqa: F403
from .nn.roi import *  # noqa: F403
from .nn.sequence_labeling import *  # noqa: F403
from .nn.similarity import *  # noqa: F403
from .ops import *  # noqa: F403
from .removed_in_1x import *  # noqa: F403
from .rnn import __all__ as _rnn
from .rnn.beam import *  # noqa: F403
from .rnn.decoder import *  # noqa: F403
from .rnn.dynamic import *  # noqa: F403
from .sequence_lod import *  # noqa: F403
from .tensor import *  # noqa: F403

__all__ = [
    *nn.__all__,
    *removed_in_1x.__all__,
    *io.__all__,
    *tensor.__all__,
    *control_flow.__all__,
    *detection.__all__,
    *distributions.__all__,
    *ops.__all__,
    *loss.__all__,
    "accuracy",
    "auc",
    *_rnn,
    *sequence_lod.__all__,
    *learning_rate_scheduler.__all__,
    "utils",
]

deprecated.mark(globals())
