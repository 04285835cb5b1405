"""The logger of paddle.hapi."""

from __future__ import annotations

import logging
import os
import sys

from paddle.distributed.parallel import ParallelEnv

__all__: list[str] = []

_FORM = logging.Formatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s")


def _add(logger: logging.Logger, handler: logging.Handler) -> None:
    handler.setLevel(logger.level)
    handler.setFormatter(_FORM)
    logger.addHandler(handler)


def setup_logger(output: str | None = None, name: str = "hapi", log_level: int = logging.INFO) -> logging.Logger:
    """The logger `name`, which writes to standard output on rank 0 and to a file on each rank.

    Args:
        output (str, optional): a file ending in .txt or .log, else a folder for log.txt; None: no file. Ranks above 0
            append ``.rank<n>`` to the name.
        name (str): name of the logger.
        log_level (int): messages of a lower level are dropped.
    """
    logger = logging.getLogger(name)
    logger.propagate = False
    logger.setLevel(log_level)
    rank = ParallelEnv().local_rank
    if rank == 0 and not logger.handlers:
        _add(logger, logging.StreamHandler(sys.stdout))
    if output is not None:
        path = output if output.endswith((".txt", ".log")) else os.path.join(output, "log.txt")
        if rank > 0:
            path += f".rank{rank}"
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        _add(logger, logging.FileHandler(path, delay=True))
    return logger
