"""The modes of DistributeTranspiler in which trainers exchange gradients among themselves."""

from __future__ import annotations

from typing import Any

import paddle._core as core
from paddle.distributed.program_rings import append_world

from .collective import GradAllReduce, LocalSGD, SingleProcessMultiThread
from .details import wait_server_ready

__all__ = ["collective", "nccl2", "prepare_nccl2"]


def _must_be_endpoints(kinds: Any, trainers: Any) -> None:
    if not isinstance(trainers, kinds):
        raise TypeError(f"transpile: without servers, trainers must be a str of endpoints, got {trainers!r}")


def prepare_nccl2(config: Any, program: Any, trainers: Any) -> None:
    """Note in the Program who takes part."""
    _must_be_endpoints(str, trainers)
    program._trainers_endpoints = trainers.split(",")
    program._nccl_comm_num = config.nccl_comm_num
    program._use_hierarchical_allreduce = config.use_hierarchical_allreduce
    if not config.use_hierarchical_allreduce:
        return
    count, inner = len(program._trainers_endpoints), config.hierarchical_allreduce_inter_nranks
    if inner <= 1:
        inner = config.hierarchical_allreduce_inter_nranks = core.get_cuda_device_count()
    if count <= inner or inner < 1 or count % inner:
        raise ValueError(f"{count} trainers are not several groups of {inner} for hierarchical all-reduce")
    program._hierarchical_allreduce_inter_nranks = int(inner)


def nccl2(config: Any, trainer_id: int, trainers: str, endpoint: str, startup: Any, wait_port: bool) -> Any:
    """An operator in the startup Program that makes the group known to all."""
    if trainer_id < 0:
        raise ValueError(f"trainer_id must not be negative, got {trainer_id}")
    every = trainers.split(",")
    others = [e for e in every if e != endpoint]
    if trainer_id == 0 and wait_port:
        wait_server_ready(others)
    return append_world(startup, every, trainer_id, config)


def collective(mode: Any, rings: int, rank: int, trainers: Any, endpoint: str, startup: Any, main: Any, wait: bool):
    """Collective operators in both Programs."""
    _must_be_endpoints((str, list, tuple), trainers)
    endpoints = trainers.split(",") if isinstance(trainers, str) else trainers
    kinds: dict[Any, Any] = {
        "grad_allreduce": lambda: GradAllReduce(rings),
        "local_sgd": lambda: LocalSGD(rings),
        "single_process_multi_thread": SingleProcessMultiThread,
    }
    if mode not in kinds:
        raise ValueError(f"collective_mode must be one of {', '.join(kinds)}, got {mode!r}")
    kinds[mode]().transpile(startup, main, rank, endpoints, endpoint, wait)
