"""``python -m paddle.distributed.launch_ps``: 1.8's launcher of parameter-server jobs, on top of 2.0's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .launch import launch as start
from .launch.args import count, port

__all__ = ["launch"]


def _flags(argv: Sequence[str] | None) -> list[str]:
    p = argparse.ArgumentParser(
        prog="python -m paddle.distributed.launch_ps",
        description="Start the servers and workers of a parameter-server job.",
    )
    p.add_argument("--cluster_node_ips", default="127.0.0.1", help="addresses of all nodes (default: %(default)s)")
    p.add_argument("--node_ip", default="127.0.0.1", help="address of this node, one of them (default: %(default)s)")
    p.add_argument("--start_port", type=port, default=6170, help="port of a node's first server (default: %(default)s)")
    p.add_argument("--print_config", default="true", help="print what is started (default: %(default)s)")
    p.add_argument("--endpoints", default="", help="ip:port of each server, instead of nodes and ports")
    p.add_argument("--worker_num", type=count, default=2, help="workers of each node (default: %(default)s)")
    p.add_argument("--server_num", type=count, default=2, help="servers of each node (default: %(default)s)")
    p.add_argument("--log_dir", default="logs", help="folder of each process's log (default: %(default)s)")
    p.add_argument("training_script")
    p.add_argument("training_script_args", nargs=argparse.REMAINDER)
    args = p.parse_args(argv)
    ips = [ip.strip() for ip in args.cluster_node_ips.split(",")]
    if args.node_ip not in ips:
        p.error(f"--node_ip={args.node_ip} is not among the nodes {args.cluster_node_ips}")
    ports = range(args.start_port, args.start_port + args.server_num)
    servers = args.endpoints or ",".join(f"{ip}:{n}" for ip in ips for n in ports)
    first = args.start_port + args.server_num
    workers = ",".join(f"{ip}:{first + i}" for ip in ips for i in range(args.worker_num))
    return [
        f"--servers={servers}",
        f"--workers={workers}",
        f"--node_ip={args.node_ip}",
        f"--log_dir={args.log_dir}",
        f"--print_config={args.print_config}",
        args.training_script,
        *args.training_script_args,
    ]


def launch(argv: Sequence[str] | None = None) -> None:
    """Starts the servers and workers described by `argv` (default: the command line); returns when the workers have
    ended.

    Raises:
        SystemExit: as by `paddle.distributed.launch.launch`.

    Examples:
        >>> from paddle.distributed.launch_ps import launch
        >>> launch(["--server_num=1", "--worker_num=2", "train.py"])  # doctest: +SKIP
    """
    start(_flags(argv))


if __name__ == "__main__":
    launch()
