"""Trains forever with a strategy of fleet; a file marks the start.

python fleet_faults.py FOLDER NAME
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

import fleet_training as job
import paddle


def batch(step: int) -> dict[str, Any]:
    if step == 6:
        (Path(sys.argv[1]) / f"trains.{os.environ['PADDLE_TRAINER_ID']}").touch()
    return job.batch(step % job.STEPS)


if __name__ == "__main__":
    paddle.enable_static()
    job.train(sys.argv[2], itertools.count(), batch)
