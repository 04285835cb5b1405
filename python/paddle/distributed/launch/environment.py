"""The placement of this launcher among the launchers of a job: from its flags, or the environment variables of
PaddleCloud, Kubernetes, SLURM or MPI."""

from __future__ import annotations

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import ports
from .args import LaunchError

Env = Mapping[str, str]
DEFAULT_PORT = 6070
CLOUD_PORT = 6170


@dataclass(frozen=True)
class Placement:
    """One launcher among several: one on each node, or (SLURM tasks, MPI ranks) several on a node."""

    source: str
    ips: tuple[str, ...]
    index: int
    # The rendezvous, hosted by launcher 0; port None: a free one, on the loopback.
    master: tuple[str, int | None]
    # The port of the first process of each node; None: free ones.
    first_port: int | None = None
    # Endpoints given by the environment, for each launcher.
    endpoints: tuple[tuple[str, ...], ...] | None = None
    local_rank: int = 0
    local_size: int = 1
    name: str | None = None

    @property
    def alone(self) -> bool:
        return len(self.ips) == 1


def number(env: Env, name: str, low: int = 0) -> int | None:
    """An environment variable that must be an integer of at least `low`; None if it is unset or empty."""
    text = env.get(name, "").strip()
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low:
        raise LaunchError(f"the environment variable {name} is {text!r}: an integer of at least {low} is needed")
    return value


def _needed(env: Env, name: str, low: int = 0) -> int:
    value = number(env, name, low)
    if value is None:
        raise LaunchError(f"the environment variable {name} is missing")
    return value


def which(ips: list[str], named: str | None, env: Env) -> int:
    """The index in `ips` of this node: of --node_ip, else POD_IP, else the only local address."""
    for what, ip in (("--node_ip", named), ("POD_IP", env.get("POD_IP"))):
        if ip:
            if ip not in ips:
                raise LaunchError(f"{what} is {ip}, which is not among the nodes {', '.join(ips)}")
            return ips.index(ip)
    if len(ips) == 1:
        return 0
    try:
        own = socket.gethostbyname(socket.gethostname())
    except OSError:
        own = ""
    if own in ips:
        return ips.index(own)
    here = [i for i, ip in enumerate(ips) if ports.local(ports.resolve(ip))]
    if len(here) == 1:
        return here[0]
    found = "none of them is" if not here else ", ".join(ips[i] for i in here) + " all are"
    raise LaunchError(f"which of the nodes {', '.join(ips)} is this ({found} local)? Set --node_ip or POD_IP")


def start_port(args: argparse.Namespace, env: Env) -> int | None:
    return args.started_port or number(env, "FLAGS_START_PORT", 1)


def _master_address(env: Env) -> tuple[str, int | None] | None:
    host = env.get("MASTER_ADDR", "").strip()
    return (host, number(env, "MASTER_PORT", 1)) if host else None


def from_flags(args: argparse.Namespace, env: Env) -> Placement | None:
    """From --ips, and the related flags of 1.8."""
    if not args.ips and not args.node_ip:
        return None
    ips = [ip.strip() for ip in (args.ips or args.node_ip).split(",") if ip.strip()]
    if not ips:
        raise LaunchError("--ips names no address")
    if len(set(ips)) < len(ips):
        raise LaunchError(f"--ips names a node twice: {args.ips}")
    index = which(ips, args.node_ip if args.ips else None, env)
    first = start_port(args, env)
    if len(ips) == 1:
        return Placement("--ips", (ips[0],), 0, ("127.0.0.1", None), first)
    first = first or DEFAULT_PORT
    return Placement("--ips", tuple(ips), index, (ips[0], first), first)


def in_cloud(env: Env) -> bool:
    """Whether PaddleCloud, or its Kubernetes operator, started this process."""
    return all(env.get(n) is not None for n in ("PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM"))


def from_cloud(args: argparse.Namespace, env: Env) -> Placement | None:
    """From PADDLE_TRAINERS, POD_IP, PADDLE_TRAINER_ID, TRAINER_PORTS_NUM and the endpoints' variables."""
    if not in_cloud(env):
        if args.use_paddlecloud:
            names = "PADDLE_TRAINERS, POD_IP, PADDLE_TRAINER_ID and TRAINER_PORTS_NUM"
            raise LaunchError(f"--use_paddlecloud needs {names} in the environment")
        return None
    if number(env, "PADDLE_TRAINERS_NUM", 1) in (None, 1):
        return None
    ips = tuple(ip.strip() for ip in env["PADDLE_TRAINERS"].split(","))
    index, per_node = _needed(env, "PADDLE_TRAINER_ID"), _needed(env, "TRAINER_PORTS_NUM", 1)
    if index >= len(ips):
        raise LaunchError(f"PADDLE_TRAINER_ID is {index}, but PADDLE_TRAINERS names {len(ips)} nodes")
    listed, endpoints = env.get("DISTRIBUTED_TRAINER_ENDPOINTS"), None
    first = number(env, "FLAGS_START_PORT", 1) or args.started_port or CLOUD_PORT
    if listed is not None:
        every = [e.strip() for e in listed.split(",")]
        if len(every) != len(ips) * per_node:
            raise LaunchError(
                f"DISTRIBUTED_TRAINER_ENDPOINTS has {len(every)} entries, {len(ips)} nodes with "
                f"TRAINER_PORTS_NUM={per_node} need {len(ips) * per_node}"
            )
        endpoints = tuple(tuple(every[i : i + per_node]) for i in range(0, len(every), per_node))
        first = ports.split(every[0])[1] or first
    elif len(ips) > 1:
        first = number(env, "PADDLE_PORT", 1) or first
    return Placement("PaddleCloud", ips, index, (ips[0], first), first, endpoints, name=env.get("SYS_JOB_ID"))


def _pod_index(env: Env) -> int | None:
    """The index of this pod: from a variable, the index of an indexed Job, or the end of its host name."""
    for name in ("PADDLE_NODE_RANK", "PADDLE_RANK", "NODE_RANK", "JOB_COMPLETION_INDEX"):
        found = number(env, name)
        if found is not None:
            return found
    end = re.search(r"-(\d+)$", env.get("HOSTNAME") or socket.gethostname())
    return int(end.group(1)) if end else None


def _among(
    source: str,
    size: int,
    index: int,
    master: tuple[str, int],
    name: str | None = None,
    local_rank: int = 0,
    local_size: int = 1,
    ips: tuple[str, ...] | None = None,
) -> Placement:
    """A placement by the address of launcher 0; the processes' ports follow the port of the rendezvous."""
    if index >= size:
        raise LaunchError(f"{source}: index {index} of {size} launchers (from 0)")
    if size == 1:
        return Placement(source, ips or ("127.0.0.1",), 0, ("127.0.0.1", None), None, name=name)
    if ips is None:
        ips = (master[0],) + ("",) * (size - 1)
    return Placement(source, ips, index, master, master[1] + 1, None, local_rank, local_size, name)


def from_paddle_job(args: argparse.Namespace, env: Env) -> Placement | None:
    """From PADDLE_MASTER and PADDLE_NNODES of the training operator's PaddleJob."""
    size = number(env, "PADDLE_NNODES", 1)
    if size is None or not env.get("PADDLE_MASTER"):
        return None
    host, port = ports.split(env["PADDLE_MASTER"])
    index = _pod_index(env)
    if index is None:
        raise LaunchError("PADDLE_NNODES is set, but the index of this node is unknown: set PADDLE_NODE_RANK")
    return _among("PADDLE_MASTER", size, index, (host, port or DEFAULT_PORT), env.get("PADDLE_JOB_ID"))


def from_master_address(args: argparse.Namespace, env: Env) -> Placement | None:
    """From MASTER_ADDR and MASTER_PORT, with WORLD_SIZE and RANK of pods, or NNODES and NODE_RANK."""
    master = _master_address(env)
    if master is None:
        return None
    for size_name, index_names in (("NNODES", ("NODE_RANK", "JOB_COMPLETION_INDEX")), ("WORLD_SIZE", ("RANK",))):
        size = number(env, size_name, 1)
        index = next((i for i in (number(env, n) for n in index_names) if i is not None), None)
        if size is not None and index is not None:
            return _among("MASTER_ADDR", size, index, (master[0], master[1] or DEFAULT_PORT), env.get("PADDLE_JOB_ID"))
    return None


def expand(nodes: str) -> list[str]:
    """Expands SLURM's compressed list of hosts, e.g. ``a[01-03,7],b`` as a01, a02, a03, a7, b."""
    found: list[str] = []
    for item in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", nodes):
        names = [""]
        for plain, inner in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", item):
            tails = [plain]
            if inner:
                tails = []
                for part in inner.split(","):
                    low, _, high = part.partition("-")
                    last = high or low
                    if not (low.isdecimal() and last.isdecimal()) or int(last) - int(low) >= 1 << 16:
                        raise LaunchError(f"cannot read the list of nodes {nodes!r}")
                    tails += [str(n).zfill(len(low)) for n in range(int(low), int(last) + 1)]
            names = [n + t for n in names for t in tails]
        found += names
    return found


def _port_of(env: Env, key: str) -> int:
    """A port from a hash of the job's name, below the ephemeral range: equal for its launchers, rarely for two jobs."""
    digits = [int(n) for n in re.findall(r"\d+", key)] or [0]
    mixed = 0
    for n in digits:
        mixed = (mixed * 131 + n) % 12000
    return number(env, "MASTER_PORT", 1) or number(env, "FLAGS_START_PORT", 1) or 15000 + mixed


def from_slurm(args: argparse.Namespace, env: Env) -> Placement | None:
    """From a step of srun: one launcher for each task. A script of sbatch is not a step."""
    step = number(env, "SLURM_STEP_ID")
    # The highest step ids are the batch script, the extern step and interactive steps.
    if step is None or step >= 0xFFFFFFF0:
        return None
    tasks = number(env, "SLURM_STEP_NUM_TASKS", 1) or number(env, "SLURM_NTASKS", 1)
    index = number(env, "SLURM_PROCID")
    if tasks is None or index is None:
        return None
    job = env.get("SLURM_JOB_ID") or env.get("SLURM_JOBID") or "0"
    nodes = expand(env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or "")
    local_rank = number(env, "SLURM_LOCALID") or 0
    local = _tasks_on(env, number(env, "SLURM_NODEID") or 0, -(-tasks // max(1, len(nodes))))
    master = _master_address(env)
    if master is None:
        if not nodes:
            raise LaunchError("SLURM_STEP_NODELIST is missing: set MASTER_ADDR to the address of task 0's node")
        master = ("127.0.0.1" if len(nodes) == 1 else nodes[0], None)
    place = (master[0], master[1] or _port_of(env, f"{job} {step}"))
    return _among("SLURM", tasks, index, place, f"slurm-{job}.{step}", local_rank, max(local, local_rank + 1))


def _tasks_on(env: Env, node: int, guess: int) -> int:
    """The number of tasks on a node, from SLURM_STEP_TASKS_PER_NODE, e.g. ``2(x3),1``."""
    listed: list[int] = []
    text = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE") or ""
    for n, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        listed += [int(n)] * min(int(times or 1), 1 << 16)
    return listed[node] if node < len(listed) else guess


# Variables of MPI implementations: (name, size, rank, local size, local rank, job).
_MPI = (
    (
        "Open MPI",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"),
    ),
    ("MPICH", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", ("HYDI_CONTROL_FD", "PMI_PORT")),
)


def from_mpi(args: argparse.Namespace, env: Env) -> Placement | None:
    """From the variables of mpirun: one launcher for each rank."""
    for name, size_name, index_name, local_size_name, local_rank_name, keys in _MPI:
        size, index = number(env, size_name, 1), number(env, index_name)
        if size is None or index is None:
            continue
        local_size, local_rank = number(env, local_size_name, 1), number(env, local_rank_name)
        key = next((env[k] for k in keys if env.get(k)), "")
        master = _master_address(env)
        if master is None:
            if local_size != size:
                raise LaunchError(
                    f"{name} does not provide the address of rank 0: set MASTER_ADDR (and MASTER_PORT) for "
                    "all ranks, e.g. mpirun -x MASTER_ADDR=host -x MASTER_PORT=29500"
                )
            master = ("127.0.0.1", None)
        place = (master[0], master[1] or _port_of(env, key))
        return _among(name, size, index, place, None, local_rank or 0, local_size or 1)
    return None


Source = Callable[[argparse.Namespace, Env], Placement | None]
ALL_SOURCES: tuple[Source, ...] = (
    from_cloud,
    from_flags,
    from_paddle_job,
    from_slurm,
    from_mpi,
    from_master_address,
)


def find(args: argparse.Namespace, env: Env | None = None, sources: tuple[Source, ...] = ALL_SOURCES) -> Placement:
    """The placement of this launcher from the first of `sources` that has one; else that of a single launcher.

    Raises:
        LaunchError: for a source that contradicts itself or is incomplete; the message says what to set.
    """
    env = os.environ if env is None else env
    for source in sources:
        found = source(args, env)
        if found is not None:
            return found
    return Placement("one node", ("127.0.0.1",), 0, ("127.0.0.1", None), start_port(args, env))
