"""fluid.layers.nn: the layer functions that upstream defines in this module."""

from paddle.fluid.layers.sequence_lod import lod_append, lod_reset
from paddle.nn.functional import dice_loss, gather_tree, log_loss
from paddle.nn.layer_helper import LayerHelper

from . import (
    common,
    conv_pool,
    ctr,
    image,
    indexing,
    manipulation,
    math,
    roi,
    sequence_labeling,
    similarity,
)
from .common import *  # noqa: F403
from .conv_pool import *  # noqa: F403
from .ctr import *  # noqa: F403
from .image import *  # noqa: F403
from .indexing import *  # noqa: F403
from .manipulation import *  # noqa: F403
from .math import *  # noqa: F403
from .roi import *  # noqa: F403
from .sequence_labeling import *  # noqa: F403
from .similarity import *  # noqa: F403

__all__ = [
    *common.__all__,
    *conv_pool.__all__,
    *ctr.__all__,
    *image.__all__,
    *indexing.__all__,
    *manipulation.__all__,
    *math.__all__,
    *(name for name in roi.__all__ if name != "roi_perspective_transform"),
    *sequence_labeling.__all__,
    *similarity.__all__,
]
