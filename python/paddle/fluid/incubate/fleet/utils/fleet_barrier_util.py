"""check_all_trainers_ready: a barrier of trainers by files of a Hadoop file system."""

from __future__ import annotations

import logging
import os
import tempfile
import time

from paddle.distributed.fleet.utils.fs import HDFSClient
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

__all__ = ["check_all_trainers_ready"]

_logger = logging.getLogger(__name__)
_LOOK = 10.0


def check_all_trainers_ready(ready_path: str, epoch: int) -> None:
    """Waits until all trainers have reached an epoch.

    The file system is given by ``HADOOP_HOME``, ``FS_NAME`` and ``FS_UGI`` of the environment.

    Args:
        ready_path (str): a folder of this job there, with a file for each trainer and epoch.
        epoch (int): the epoch.

    Raises:
        ValueError: for missing environment variables.
    """
    said = {name: os.environ.get(name) for name in ("HADOOP_HOME", "FS_NAME", "FS_UGI")}
    missing = [name for name, value in said.items() if not value]
    if missing:
        raise ValueError(f"check_all_trainers_ready: the environment lacks {', '.join(missing)}")
    configs = {"fs.default.name": said["FS_NAME"], "hadoop.job.ugi": said["FS_UGI"]}
    client, trainers = HDFSClient(str(said["HADOOP_HOME"]), configs), fleet.worker_num()
    folder = ready_path.rstrip("/")
    client.mkdirs(folder)
    place = f"{folder}/ready.{epoch}.{fleet.worker_index()}.done"
    with tempfile.NamedTemporaryFile() as empty:
        client.delete(place)
        client.upload(empty.name, place)
    wanted = {f"ready.{epoch}.{i}.done" for i in range(trainers)}
    while absent := wanted - set(client.ls_dir(folder)[1]):
        _logger.info("epoch %s waits for %d trainers", epoch, len(absent))
        time.sleep(_LOOK)
    _logger.info("all trainers have come to epoch %s", epoch)
