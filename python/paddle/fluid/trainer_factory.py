"""paddle.fluid.trainer_factory."""

from paddle.static.datasets.fetch_handler import FetchHandler, FetchHandlerMonitor
from paddle.static.datasets.trainer_factory import TrainerFactory

__all__ = ["TrainerFactory", "FetchHandler", "FetchHandlerMonitor"]
