"""What a job's scripts need beside training: file systems, a server of small values, inference at the servers."""

from __future__ import annotations

from paddle._basics.missing import getter

from .fs import HDFSClient, LocalFS
from .recompute import recompute

__all__ = ["LocalFS", "HDFSClient", "DistributedInfer", "recompute"]  # noqa: F822

__getattr__ = getter(__name__, later={"DistributedInfer": "paddle.distributed.fleet.utils.ps_util"})
