"""fluid.contrib.layers.nn: layer functions outside of the stable API of 1.x."""

from . import common, ctr, embedding, fused, tdm
from .common import *  # noqa: F403
from .ctr import *  # noqa: F403
from .embedding import *  # noqa: F403
from .fused import *  # noqa: F403
from .tdm import *  # noqa: F403

__all__ = [*common.__all__, *ctr.__all__, *embedding.__all__, *fused.__all__, *tdm.__all__]
