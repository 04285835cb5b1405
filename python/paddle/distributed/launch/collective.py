"""Collective mode: the processes of one node, all of them trainers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from . import cores, ports
from .args import LaunchError
from .environment import Placement, find
from .job import TRAINER, Job, Process, identity


def gpu_count(env: Mapping[str, str]) -> int:
    """The number of usable GPUs. CuPy, which is slow to import, is used only where there is a driver."""
    if env.get("CUDA_VISIBLE_DEVICES") == "" or not any(Path("/dev").glob("nvidia[0-9]*")):
        return 0
    from paddle import _cuda

    return _cuda.device_count()


def gpu_ids(listed: str | None, env: Mapping[str, str]) -> list[str]:
    """The GPUs to use, as indices into CUDA_VISIBLE_DEVICES.

    Raises:
        LaunchError: for a GPU that is not visible.
    """
    if not listed:
        return [str(i) for i in range(gpu_count(env))]
    ids = [x.strip() for x in listed.split(",") if x.strip()]
    if len(set(ids)) < len(ids) or not all(x.isdecimal() for x in ids):
        raise LaunchError(f"--gpus={listed}: distinct GPU indices are needed, such as 0,1")
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if not visible:
        return ids
    seen = [x.strip() for x in visible.split(",")]
    for x in ids:
        if x not in seen:
            raise LaunchError(f"--gpus names {x}, which is not in CUDA_VISIBLE_DEVICES={visible}")
    return [str(seen.index(x)) for x in ids]


def devices(args: argparse.Namespace, env: Mapping[str, str]) -> list[list[str]]:
    """The GPUs of each process of this node; empty lists on CPUs.

    Raises:
        LaunchError: when the GPUs cannot be divided evenly.
    """
    gpus, count = gpu_ids(args.gpus, env), args.nproc_per_node
    if not gpus:
        return [[] for _ in range(count or 1)]
    count = count or len(gpus)
    if len(gpus) % count:
        raise LaunchError(
            f"{len(gpus)} GPUs cannot be divided evenly among --nproc_per_node={count} processes; "
            "CUDA_VISIBLE_DEVICES='' trains on CPUs"
        )
    each = len(gpus) // count
    return [gpus[i : i + each] for i in range(0, len(gpus), each)]


def endpoints(place: Placement, count: int) -> list[list[str]]:
    """The endpoints of the `count` processes of each launcher."""
    if place.endpoints is not None:
        if len(place.endpoints[0]) < count:
            has = len(place.endpoints[0])
            raise LaunchError(f"DISTRIBUTED_TRAINER_ENDPOINTS has {has} ports a node for {count} processes")
        return [list(node[:count]) for node in place.endpoints]
    if place.first_port is None:
        return [[ports.join(place.ips[0], p) for p in ports.free(count)]]
    # Launchers that may share a machine use consecutive port ranges; separate nodes use the same range.
    through = "" in place.ips
    # Only launcher 0 is known by address, unless the source of the placement lists all.
    found = []
    for i, ip in enumerate(place.ips):
        first = place.first_port + (i * count if through else 0)
        if first + count > 65536:
            raise LaunchError(f"{count} processes from port {first} on need ports beyond 65535")
        found.append([ports.join(ip or place.ips[0], first + j) for j in range(count)])
    return found


def plan(
    args: argparse.Namespace,
    env: Mapping[str, str] | None = None,
    gpus: list[list[str]] | None = None,
    place: Placement | None = None,
) -> Job:
    """The processes of this node in collective mode.

    Args:
        gpus: the GPUs of each process; by default those of the flags.
        place: the placement of this launcher; by default that of the flags or the environment.

    Raises:
        LaunchError: for flags or an environment that contradict each other.
    """
    env = os.environ if env is None else env
    place = place or find(args, env)
    gpus = devices(args, env) if gpus is None else gpus
    nodes = endpoints(place, len(gpus))
    every = [e for node in nodes for e in node]
    name, token = identity(not place.alone, place.master[0], place.name, env)
    processes = []
    for i, own in enumerate(gpus):
        rank = place.index * len(gpus) + i
        variables = {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_CURRENT_ENDPOINT": every[rank],
            "PADDLE_TRAINERS_NUM": str(len(every)),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(every),
        }
        if own:
            variables["FLAGS_selected_gpus"] = ",".join(own)
        processes.append(Process(TRAINER, rank, i, every[rank], variables))
    bind_cores(processes, args.cores, env, place.local_rank, place.local_size)
    return Job(
        processes,
        every,
        name,
        token,
        place.master,
        place.index == 0,
        len(place.ips),
        place.index,
        unsettled="" in place.ips,
    )


def bind_cores(
    processes: list[Process], choice: str | None, env: Mapping[str, str], local_rank: int = 0, local_size: int = 1
) -> None:
    """Divides the cores among the processes, unless the user has set the number of threads."""
    if not cores.wanted(choice, env):
        return
    for p, own in zip(processes, cores.divide(len(processes), None, local_rank, local_size), strict=True):
        p.cores = own
        p.env["OMP_NUM_THREADS"] = cores.threads(own)
