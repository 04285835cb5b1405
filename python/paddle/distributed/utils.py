"""Helpers of 2.0.2's launcher, for scripts that start processes themselves.

`paddle.distributed.launch` and `spawn` do not use these: their processes end with the launcher.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, BinaryIO

from .launch import collective, ports
from .launch.args import LaunchError
from .launch.cluster import Cluster, Hdfs, JobServer, Pod, Trainer, make  # noqa: F401

__all__: list[str] = []

logger = logging.getLogger("root")
logger.propagate = False


def get_logger(log_level=20, name="root"):
    """A logger that writes level, time and place to the standard error."""
    found = logging.getLogger(name)
    found.setLevel(log_level)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(filename)s:%(lineno)d %(message)s"))
    found.addHandler(handler)
    return found


def _print_arguments(args: Any) -> None:
    width = 48
    print(" Configuration Arguments ".center(width, "-"))
    for name, value in sorted(vars(args).items()):
        print(f"{name}: {value}")
    print("-" * width)


def add_arguments(argname, type, default, help, argparser, **kwargs):  # noqa: A002
    """Adds ``--argname`` to an argparse parser; a bool is parsed from words such as true, no, 1.

    Examples:
        >>> import argparse
        >>> from paddle.distributed.utils import add_arguments
        >>> parser = argparse.ArgumentParser()
        >>> add_arguments("shuffle", bool, True, "whether to shuffle.", parser)
        >>> parser.parse_args(["--shuffle=no"]).shuffle
        False
    """
    argparser.add_argument(
        "--" + argname,
        default=default,
        type=_truth if type is bool else type,
        help=help + " Default: %(default)s.",
        **kwargs,
    )


def _truth(text: str) -> bool:
    word = text.lower()
    if word in ("y", "yes", "t", "true", "on", "1"):
        return True
    if word in ("n", "no", "f", "false", "off", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def get_host_name_ip():
    """The name and the address of this host, or None for an unresolvable name."""
    try:
        name = socket.gethostname()
        return name, socket.gethostbyname(name)
    except OSError:
        return None


def find_free_ports(num):
    """A set of `num` free ports, or None."""
    try:
        return set(ports.free(num))
    except LaunchError:
        return None


def get_gpus(selected_gpus):
    """The GPUs of "0,1,2" (None: all), as indices into CUDA_VISIBLE_DEVICES."""
    if selected_gpus is None:
        return collective.gpu_ids(None, os.environ)
    visible = os.getenv("CUDA_VISIBLE_DEVICES")
    ids = [x.strip() for x in selected_gpus.split(",")]
    if not visible:
        return ids
    seen = [x.strip() for x in visible.split(",")]
    for x in ids:
        assert x in seen, f"device {x} of selected_gpus is not among CUDA_VISIBLE_DEVICES={visible}"
    return [seen.index(x) for x in ids]


def get_cluster(node_ips, node_ip, trainer_endpoints, selected_gpus):
    """The cluster with one process for each GPU on every node, and its node `node_ip`."""
    return make(list(node_ips), node_ip, trainer_endpoints, list(selected_gpus))


def get_cluster_from_args(args, selected_gpus):
    """The cluster that ``args`` (cluster_node_ips, node_ip, started_port, use_paddlecloud) describes, and this node."""
    node_ips = [x.strip() for x in args.cluster_node_ips.split(",")]
    count = len(selected_gpus)
    own: list[int] | None = None
    if not args.use_paddlecloud and len(node_ips) <= 1 and args.started_port is None:
        free = find_free_ports(count)
        own = None if free is None else sorted(free)
    if own is None:
        first = 6070 if args.started_port is None else args.started_port
        own = list(range(first, first + count))
    return get_cluster(node_ips, args.node_ip, [[f"{ip}:{p}" for p in own] for ip in node_ips], selected_gpus)


def _prepare_trainer_env(cluster: Cluster, trainer: Trainer) -> dict[str, str]:
    return {
        "FLAGS_selected_gpus": ",".join(str(g) for g in trainer.gpus),
        "PADDLE_TRAINER_ID": str(trainer.rank),
        "PADDLE_CURRENT_ENDPOINT": str(trainer.endpoint),
        "PADDLE_TRAINERS_NUM": str(cluster.trainers_nranks()),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(str(e) for e in cluster.trainers_endpoints()),
    }


class TrainerProc:
    """A process of `start_local_trainers`."""

    def __init__(self):
        self.proc: subprocess.Popen | None = None
        self.log_fn: BinaryIO | None = None
        self.log_offset: int | None = None
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.cmd: list[str] | None = None


def start_local_trainers(cluster, pod, training_script, training_script_args, log_dir=None):
    """Starts the script for each trainer of this node, with its environment; `log_dir` is for their output."""
    shared = {k: v for k, v in os.environ.items() if k not in ("http_proxy", "https_proxy")}
    started = []
    for number, trainer in enumerate(pod.trainers):
        tp = TrainerProc()
        tp.cmd = [sys.executable, "-u", training_script, *training_script_args]
        tp.rank, tp.local_rank = trainer.rank, number
        if log_dir is not None:
            os.makedirs(log_dir, exist_ok=True)
            tp.log_fn = open(os.path.join(log_dir, f"workerlog.{number}"), "ab")  # noqa: SIM115
            tp.log_offset = tp.log_fn.tell()
        tp.proc = subprocess.Popen(
            tp.cmd, env=shared | _prepare_trainer_env(cluster, trainer), stdout=tp.log_fn, stderr=tp.log_fn
        )
        started.append(tp)
    return started


def pull_worker_log(tp):
    """Copies new output of a process from its log to the standard output."""
    if tp.log_fn is None:
        return
    with open(tp.log_fn.name, "rb") as f:
        f.seek(tp.log_offset)
        data = f.read()
    tp.log_offset += len(data)
    sys.stdout.write(data.decode(sys.stdout.encoding or "utf-8", errors="replace"))


def watch_local_trainers(procs, nranks):
    """Polls the processes once: whether one still runs.

    Raises:
        SystemExit: one has failed; the others are terminated.
    """
    for p in procs:
        if p.local_rank == 0:
            pull_worker_log(p)
    codes = [p.proc.poll() for p in procs]
    failed = [p.rank for p, code in zip(procs, codes, strict=True) if code]
    if failed:
        logger.error(
            "of %d trainers the ranks %s have failed: the others are terminated; see their logs", nranks, failed
        )
        terminate_local_procs(procs)
        raise SystemExit(1)
    return None in codes


def terminate_local_procs(procs):
    """Terminates the processes: SIGTERM, and SIGKILL after 3 seconds."""
    for p in procs:
        if p.proc.poll() is None:
            p.proc.terminate()
    limit = time.monotonic() + 3
    for p in procs:
        try:
            p.proc.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.proc.send_signal(signal.SIGKILL)
            p.proc.wait()
        if p.log_fn is not None:
            p.log_fn.close()
