"""The launcher: ``python -m paddle.distributed.launch [flags] script [arguments]`` starts the processes of a job.

Collective mode (the default) starts one process for each GPU, or ``--nproc_per_node`` of them on CPUs; parameter-server
mode (``--server_num``, ``--worker_num``, ``--servers``, ``--workers``) starts servers and workers. Each process gets
the environment variables of Paddle 2.0.2. One launcher runs on every node (``--ips``, or SLURM, MPI, Kubernetes).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["launch"]


def launch(argv: Sequence[str] | None = None) -> None:
    """Starts the job described by `argv` (default: the command line); returns when it has ended.

    Raises:
        SystemExit: with the status of the first process that failed, 128 and the signal's number where a signal ended
            it, 130 after Ctrl-C; 2 for invalid flags. A successful job returns.

    Examples:
        >>> from paddle.distributed.launch import launch
        >>> launch(["--nproc_per_node=2", "train.py", "--epochs=3"])  # doctest: +SKIP
    """
    from .main import run

    status = run(argv)
    if status:
        raise SystemExit(status)
