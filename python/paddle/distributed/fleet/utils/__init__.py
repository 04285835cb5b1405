"""Utilities of distributed jobs: file systems, a key-value server, inference with parameter servers, recompute."""

from __future__ import annotations

from paddle._basics.missing import getter

from .fs import HDFSClient, LocalFS
from .recompute import recompute

__all__ = ["LocalFS", "HDFSClient", "DistributedInfer", "recompute"]  # noqa: F822

__getattr__ = getter(__name__, later={"DistributedInfer": "paddle.distributed.fleet.utils.ps_util"})
