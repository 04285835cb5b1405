"""fluid.layers.detection: priors, targets, losses, proposals and non-maximum suppression of object detectors."""

from paddle.fluid.layers.nn.roi import roi_perspective_transform

from . import losses, nms, priors, proposals, targets
from .losses import *  # noqa: F403
from .losses import detection_map as detection_map
from .nms import *  # noqa: F403
from .priors import *  # noqa: F403
from .proposals import *  # noqa: F403
from .targets import *  # noqa: F403

__all__ = [
    *priors.__all__,
    *nms.__all__,
    *losses.__all__,
    *proposals.__all__,
    *targets.__all__,
    "roi_perspective_transform",
]
