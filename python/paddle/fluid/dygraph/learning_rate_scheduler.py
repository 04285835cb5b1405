"""fluid.dygraph's learning rates: objects that an optimizer of fluid calls once for each step that it makes."""

from paddle.fluid.rates import decays, epochs
from paddle.fluid.rates.base import LearningRateDecay
from paddle.fluid.rates.decays import *  # noqa: F403
from paddle.fluid.rates.epochs import *  # noqa: F403
from paddle.fluid.rates.epochs import _LearningRateEpochDecay

__all__ = [*decays.__all__, *epochs.__all__]
