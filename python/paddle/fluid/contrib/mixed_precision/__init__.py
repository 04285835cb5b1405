"""fluid.contrib.mixed_precision: what paddle.static.amp has."""

from . import amp_nn as amp_nn
from . import decorator, fp16_lists, fp16_utils
from .decorator import *  # noqa: F403
from .fp16_lists import *  # noqa: F403
from .fp16_utils import *  # noqa: F403

__all__ = [*decorator.__all__, *fp16_lists.__all__, *fp16_utils.__all__]
