"""Detection layers of fluid.layers, all families."""

from __future__ import annotations

from . import detection_losses, detection_nms, detection_priors
from .detection_losses import *  # noqa: F403
from .detection_losses import detection_map as detection_map
from .detection_nms import *  # noqa: F403
from .detection_priors import *  # noqa: F403
from .detection_rois import roi_perspective_transform

__all__ = [
    *detection_priors.__all__,
    *detection_nms.__all__,
    *detection_losses.__all__,
    "roi_perspective_transform",
]
