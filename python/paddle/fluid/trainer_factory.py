"""paddle.fluid.trainer_factory."""

from paddle.static.trainers.fetch_handler import FetchHandler, FetchHandlerMonitor
from paddle.static.trainers.trainer_factory import TrainerFactory

__all__ = ["TrainerFactory", "FetchHandler", "FetchHandlerMonitor"]
