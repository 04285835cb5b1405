"""Workers that wait for each other by files of a Hadoop file system."""
from __future__ import annotations

import os
import time
from pathlib import Path

from paddle.fluid.contrib.utils import HDFSClient
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

__all__ = ["check_all_trainers_ready"]

#: seconds between two looks
_PAUSE = 10.0


def check_all_trainers_ready(ready_path: str, epoch: int) -> None:
    """Waits until all workers of the fleet have come here in the epoch.

    Args:
        ready_path (str): a folder of the file system that FS_NAME and FS_UGI name; HADOOP_HOME is where the command is.
        epoch (int): a part of the file's name that each worker puts there.

    Raises:
        KeyError: without HADOOP_HOME.
    """
    configs = {"fs.default.name": os.getenv("FS_NAME"), "hadoop.job.ugi": os.getenv("FS_UGI")}
    client = HDFSClient(os.environ["HADOOP_HOME"], configs)
    mine = Path(f"ready.{epoch}.{fleet.worker_index()}.done")
    mine.write_text("")
    if not client.is_dir(ready_path):
        client.makedirs(ready_path)
    client.upload(ready_path, str(mine), overwrite=True, retry_times=0)
    while len(client.ls(ready_path)) % fleet.worker_num():
        time.sleep(_PAUSE)
