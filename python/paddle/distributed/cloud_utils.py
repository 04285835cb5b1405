"""The nodes of a job started by PaddleCloud, from its environment variables."""

from __future__ import annotations

import argparse
import os

from .launch import environment, ports
from .utils import get_cluster, get_cluster_from_args, get_gpus, logger

__all__: list[str] = []


def get_cloud_cluster(args_node_ips, args_node_ip, args_port, selected_gpus):
    """The cluster and this node, from PADDLE_TRAINERS, POD_IP, PADDLE_TRAINER_ID and TRAINER_PORTS_NUM.

    Args:
        args_node_ips (str): the nodes of the user's flags; a difference is only warned about.
        args_node_ip (str): likewise this node.
        args_port (int): the first port, unless PADDLE_PORT or DISTRIBUTED_TRAINER_ENDPOINTS is set.
        selected_gpus (list): one for each process of a node.

    Raises:
        ValueError: when a variable is missing or wrong.
    """
    env = dict(os.environ)
    if not environment.in_cloud(env):
        raise ValueError("PADDLE_TRAINERS, POD_IP, PADDLE_TRAINER_ID and TRAINER_PORTS_NUM should not be None")
    env["PADDLE_TRAINERS_NUM"] = "2"  # the caller has checked these
    # PADDLE_PORT counts only with a port for each process.
    if int(env["TRAINER_PORTS_NUM"]) < len(selected_gpus):
        env.pop("PADDLE_PORT", None)
    place = environment.from_cloud(argparse.Namespace(started_port=args_port, use_paddlecloud=True), env)
    assert place is not None
    node_ips, own_ip = list(place.ips), place.ips[place.index]
    listed = ",".join(node_ips)
    for what, said, found in (("node_ip", args_node_ip, env["POD_IP"]), ("cluster_node_ips", args_node_ips, listed)):
        if said not in (None, "127.0.0.1", found):
            logger.warning("%s is %s by the environment of PaddleCloud, not %s", what, found, said)
    if place.endpoints is not None:
        endpoints = [list(node) for node in place.endpoints]
    else:
        first = place.first_port or environment.CLOUD_PORT
        endpoints = [[ports.join(ip, first + i) for i in range(len(selected_gpus))] for ip in node_ips]
    return get_cluster(node_ips, own_ip, endpoints, selected_gpus)


def _get_trainers_num():
    return int(os.getenv("PADDLE_TRAINERS_NUM", "1"))


def get_cluster_and_pod(args):
    """The cluster of the arguments, or with ``args.use_paddlecloud`` of PaddleCloud, and this node."""
    selected_gpus = get_gpus(args.selected_gpus)
    if args.use_paddlecloud and _get_trainers_num() != 1:
        return get_cloud_cluster(args.cluster_node_ips, args.node_ip, args.started_port, selected_gpus)
    return get_cluster_from_args(args, selected_gpus)
