"""fluid.contrib.slim.graph: Programs with named inputs and outputs, and their executor."""

from . import executor, graph_wrapper
from .executor import *  # noqa: F403
from .graph_wrapper import *  # noqa: F403

__all__ = [*executor.__all__, *graph_wrapper.__all__]
