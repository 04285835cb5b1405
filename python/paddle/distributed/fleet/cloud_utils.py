"""The environment of PaddleCloud: detection, and the nodes of the job."""

from __future__ import annotations

import os

from paddle.distributed import cloud_utils
from paddle.distributed.launch import environment

__all__: list[str] = []


def use_paddlecloud():
    """Whether PADDLE_TRAINERS, POD_IP, PADDLE_TRAINER_ID and TRAINER_PORTS_NUM are set."""
    return environment.in_cloud(os.environ)


def get_trainers_num():
    """PADDLE_TRAINERS_NUM, 1 by default."""
    return int(os.getenv("PADDLE_TRAINERS_NUM", "1"))


def get_cloud_cluster(args_node_ips, device_mode, devices_per_proc, args_port=6170):
    """The cluster and this node, from PaddleCloud's variables; see `paddle.distributed.cloud_utils`."""
    return cloud_utils.get_cloud_cluster(args_node_ips, None, args_port, list(devices_per_proc))
