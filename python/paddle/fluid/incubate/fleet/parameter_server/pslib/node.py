"""paddle.fluid.incubate.fleet.parameter_server.pslib.node."""

from paddle.distributed.ps.pslib.node import DownpourServer, DownpourWorker, Server, Worker

__all__ = ["Server", "Worker", "DownpourServer", "DownpourWorker"]
