"""``python -m paddle.distributed.fleet.launch`` (fleetrun): the launcher of `paddle.distributed.launch`."""

from __future__ import annotations

from paddle.distributed.launch import launch

__all__ = ["launch"]

if __name__ == "__main__":
    launch()
