"""Distributed training: the processes of a job, collectives between them, fleet, parameter servers, the launcher."""

from __future__ import annotations

from paddle._basics import missing as _missing

from . import collective, parallel
from .collective import (
    ReduceOp,
    all_gather,
    all_reduce,
    all_to_all,
    alltoall,
    barrier,
    broadcast,
    get_group,
    new_group,
    recv,
    reduce,
    reduce_scatter,
    scatter,
    send,
    wait,
)
from .data_parallel import DataParallel
from .model_parallel import split
from .parallel import ParallelEnv, get_rank, get_world_size, init_parallel_env, is_initialized, report
from .spawn import spawn

__all__ = [
    "spawn",
    "init_parallel_env",
    "get_rank",
    "get_world_size",
    "ParallelEnv",
    "split",
    "InMemoryDataset",
    "QueueDataset",
    "ProbabilityEntry",
    "CountFilterEntry",
    *collective.__all__,
]

_LATER = {
    "fleet": "paddle.distributed.fleet",
    **dict.fromkeys(("CountFilterEntry", "ProbabilityEntry"), "paddle.distributed.entry_attr"),
    **dict.fromkeys(
        ("BoxPSDataset", "DatasetBase", "FileInstantDataset", "InMemoryDataset", "QueueDataset"),
        "paddle.distributed.fleet.dataset",
    ),
}
__getattr__ = _missing.getter(__name__, later=_LATER)
