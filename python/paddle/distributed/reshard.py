"""Reshards the snapshots of parameter servers for a job with another number of servers.

    python -m paddle.distributed.reshard OLD NEW

OLD is the FLAGS_ps_state_folder of the first job, NEW that of the second one, whose servers restore from it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import paddle._core as core

__all__: list[str] = []


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status with these arguments."""
    ask = argparse.ArgumentParser(
        prog="python -m paddle.distributed.reshard", description=(__doc__ or "").split("\n")[0]
    )
    ask.add_argument("old", help="folder with the snapshots of a job's servers (its FLAGS_ps_state_folder)")
    ask.add_argument("new", help="folder of the job that continues (its FLAGS_ps_state_folder)")
    ask.add_argument("--uneven", action="store_true", help="accept snapshots of different steps")
    given = ask.parse_args(argv)
    try:
        for line in core.dist.reshard_state(given.old, given.new, given.uneven):
            print(line)
    except (OSError, RuntimeError, ValueError) as e:
        print(f"reshard: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
