"""fluid.contrib.slim.distillation: a strategy that trains a student by a teacher, and its losses."""

from . import distillation_strategy, distiller
from .distillation_strategy import *  # noqa: F403
from .distiller import *  # noqa: F403

__all__ = [*distillation_strategy.__all__, *distiller.__all__]
