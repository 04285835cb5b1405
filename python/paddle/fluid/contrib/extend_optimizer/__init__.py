"""fluid.contrib.extend_optimizer: extensions of the optimizers of 1.x."""

from . import extend_optimizer_with_weight_decay
from .extend_optimizer_with_weight_decay import *  # noqa: F403

__all__ = [*extend_optimizer_with_weight_decay.__all__]
