"""fluid.contrib.slim.core: Compressor, which trains, evaluates and saves under strategies, and its configuration."""

from ..strategy import Strategy
from . import compressor, config
from .compressor import *  # noqa: F403
from .config import *  # noqa: F403

__all__ = [*config.__all__, *compressor.__all__, "Strategy"]
