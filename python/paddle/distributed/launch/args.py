"""The launcher's flags: those of Paddle 2.0.2, of 1.8, and Oar's own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

# The flags of a parameter-server job.
PS_FLAGS = ("servers", "workers", "heter_workers", "server_num", "worker_num", "heter_worker_num", "http_port")


class LaunchError(ValueError):
    """An invalid flag or environment; the message says what to change."""


def _yes(text: str) -> bool:
    return text.lower() in ("1", "true", "yes", "on", "y", "t")


def count(text: str) -> int:
    """A number of processes."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes (1 or more)")
    return number


def port(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 0 < number < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return number


def parser(prog: str) -> argparse.ArgumentParser:
    """The parser of all flags. Arguments after the script are the script's."""
    p = argparse.ArgumentParser(prog=prog, description="Start the processes of a training job.")
    base = p.add_argument_group("base")
    base.add_argument(
        "--log_dir",
        default="log",
        help="folder of each process's log (default: %(default)s); '' prints everything to the terminal",
    )
    base.add_argument(
        "--nproc_per_node", type=count, help="processes on this node (default: one for each GPU, or 1 on CPUs)"
    )
    base.add_argument("--gpus", help="GPUs to use, e.g. 0,1,2,3; one process each")
    base.add_argument("--selected_gpus", dest="gpus", help="the same")
    base.add_argument("training_script", help="the script that every process runs")
    base.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")

    collective = p.add_argument_group("collective mode")
    collective.add_argument(
        "--ips",
        "--cluster_node_ips",
        help="addresses of all nodes, the first hosts the rendezvous (default: 127.0.0.1)",
    )
    collective.add_argument("--node_ip", help="the address of this node, one of them (default: detected)")
    collective.add_argument(
        "--started_port",
        type=port,
        help="port of a node's first process (default: a free one on one node, 6070 on several); or FLAGS_START_PORT",
    )
    collective.add_argument(
        "--use_paddlecloud",
        action="store_true",
        help="requires PaddleCloud's environment "
        "(PADDLE_TRAINERS, POD_IP, PADDLE_TRAINER_ID, TRAINER_PORTS_NUM); without this flag it is "
        "used if present",
    )

    ps = p.add_argument_group("parameter-server mode")
    ps.add_argument("--servers", default="", help="ip:port of each server")
    ps.add_argument("--workers", default="", help="ip or ip:port of each worker")
    ps.add_argument("--heter_workers", default="", help="ip:port of each heterogeneous worker")
    ps.add_argument("--server_num", type=count, help="servers, on this machine")
    ps.add_argument("--worker_num", type=count, help="workers, on this machine")
    ps.add_argument("--heter_worker_num", type=count, help="heterogeneous workers, on this machine")
    ps.add_argument("--http_port", type=port, help="port of PADDLE_GLOO_HTTP_ENDPOINT, on the first server's node")

    own = p.add_argument_group("how processes run")
    own.add_argument(
        "--cores",
        choices=("divide", "all"),
        help="divide this node's cores among its processes "
        "(affinity and OMP_NUM_THREADS; the default unless OMP_NUM_THREADS is set), or let each use all",
    )
    own.add_argument(
        "--legacy",
        action="store_true",
        help="run the script by python -m paddle.legacy, for programs of 1.x and the numpy of its day",
    )
    own.add_argument("--print_config", type=_yes, default=True, help="print what is started (default: true)")
    own.add_argument(
        "--log_level", type=int, default=20, help="accepted as in 1.8; 30 and more mean --print_config=false"
    )
    return p


def parse(argv: Sequence[str] | None, prog: str = "python -m paddle.distributed.launch") -> argparse.Namespace:
    """The flags as a Namespace with `ps` (bool) added; exits with status 2 for invalid flags."""
    p = parser(prog)
    args = p.parse_args(argv)
    args.ps = any(getattr(args, name) for name in PS_FLAGS)
    if args.ps and args.ips:
        p.error(
            "--ips belongs to collective mode, "
            + ", ".join(f"--{n}" for n in PS_FLAGS if getattr(args, n))
            + " to parameter-server mode: choose one"
        )
    if args.log_level >= 30:
        args.print_config = False
    return args
