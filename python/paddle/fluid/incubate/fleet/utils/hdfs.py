"""HDFSClient where 1.x has it."""

from paddle.distributed.fleet.utils.fs import HDFSClient

__all__ = ["HDFSClient"]
