"""fluid.layers: the layer functions of Paddle 1.x."""

from paddle.static.metric import accuracy, auc

from . import (
    beams,
    branches,
    collective,
    control_flow,
    ctr,
    decoding,
    detection,
    detection_proposals,
    detection_rois,
    detection_targets,
    device,
    distributions,
    former,
    images,
    io,
    learning_rate_scheduler,
    lod_nets,
    loss,
    more_losses,
    nn,
    old,
    ops,
    relations,
    sampled,
    sequence_lod,
    tensor,
    utils,
)
from .beams import *  # noqa: F403
from .branches import *  # noqa: F403
from .control_flow import *  # noqa: F403
from .ctr import *  # noqa: F403
from .decoding import *  # noqa: F403
from .detection import *  # noqa: F403
from .detection_proposals import *  # noqa: F403
from .detection_rois import *  # noqa: F403
from .detection_targets import *  # noqa: F403
from .distributions import *  # noqa: F403
from .former import *  # noqa: F403
from .images import *  # noqa: F403
from .io import *  # noqa: F403
from .learning_rate_scheduler import *  # noqa: F403
from .lod_nets import *  # noqa: F403
from .loss import *  # noqa: F403
from .more_losses import *  # noqa: F403
from .nn import *  # noqa: F403
from .ops import *  # noqa: F403
from .relations import *  # noqa: F403
from .rnn import *  # noqa: F403
from .rnn import __all__ as _rnn
from .sampled import *  # noqa: F403
from .sequence_lod import *  # noqa: F403
from .tensor import *  # noqa: F403

__all__ = [
    *nn.__all__,
    *former.__all__,
    *images.__all__,
    *io.__all__,
    *tensor.__all__,
    *branches.__all__,
    *control_flow.__all__,
    *decoding.__all__,
    *detection.__all__,
    *detection_proposals.__all__,
    *detection_rois.__all__,
    *ctr.__all__,
    *distributions.__all__,
    *detection_targets.__all__,
    *beams.__all__,
    *ops.__all__,
    *relations.__all__,
    *lod_nets.__all__,
    *loss.__all__,
    "accuracy",
    "auc",
    *more_losses.__all__,
    *sampled.__all__,
    *_rnn,
    *sequence_lod.__all__,
    *learning_rate_scheduler.__all__,
    "utils",
]

old.mark(globals())
