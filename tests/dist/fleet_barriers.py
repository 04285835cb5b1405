"""Workers at fleet.barrier_worker: the last one arrives once the others have reported that they wait.

python -m paddle.distributed.launch --server_num 1 --worker_num 2 fleet_barriers.py FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import paddle
import paddle.distributed.fleet as fleet


def main() -> None:
    paddle.enable_static()
    folder = Path(sys.argv[1])
    fleet.init(fleet.PaddleCloudRoleMaker())
    if fleet.is_server():
        # The rendezvous server runs in server 0, which serves until the workers stop.
        until = time.monotonic() + 120
        while not all((folder / f"done.{i}").exists() for i in range(2)) and time.monotonic() < until:
            time.sleep(0.01)
        return
    me = fleet.worker_index()
    for turn in range(3):
        if me == turn % 2:  # is late
            until = time.monotonic() + 60
            while not (folder / f"waits.{turn}").exists():
                assert time.monotonic() < until, "there was no waiting"
                time.sleep(0.01)
            time.sleep(0.05)
            (folder / f"late.{turn}").touch()
        else:
            (folder / f"waits.{turn}").touch()
        fleet.barrier_worker()
        assert (folder / f"late.{turn}").exists(), f"worker {me} went on without the other"
    (folder / f"done.{me}").touch()


if __name__ == "__main__":
    main()
