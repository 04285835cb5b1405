"""Where 2.0.2 has wait_server_ready."""

from paddle.distributed.checkport import wait_server_ready

__all__ = ["wait_server_ready"]
