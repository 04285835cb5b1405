"""What a job's scripts need beside training: file systems, a server of small values."""
from __future__ import annotations

from .fs import HDFSClient, LocalFS

__all__ = ["LocalFS", "HDFSClient"]
