"""paddle.fluid.communicator."""

from paddle.distributed.ps.async_communication import resume_steps
from paddle.distributed.ps.communicator import Communicator, LargeScaleKV

__all__ = ["Communicator", "LargeScaleKV", "resume_steps"]
