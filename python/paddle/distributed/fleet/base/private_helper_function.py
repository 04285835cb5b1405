"""wait_server_ready under its path of 2.0.2."""

from paddle.distributed.checkport import wait_server_ready

__all__ = ["wait_server_ready"]
