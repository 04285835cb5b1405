"""Parameter-server mode: the servers and workers of one node."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass

from . import ports
from .args import LaunchError
from .collective import bind_cores, gpu_ids
from .environment import CLOUD_PORT, in_cloud, number, which
from .job import HETER, SERVER, TRAINER, Job, Process, identity


@dataclass(frozen=True)
class Roles:
    """The endpoints of every role, on all nodes."""

    servers: list[str]
    workers: list[str]
    heter: list[str]
    http: str

    def variables(self) -> dict[str, str]:
        """The environment variables of all roles."""
        return {
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(self.servers),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(self.workers),
            "PADDLE_HETER_TRAINER_IP_PORT_LIST": ",".join(self.heter),
            "PADDLE_TRAINERS_NUM": str(len(self.workers)),
            "PADDLE_GLOO_HTTP_ENDPOINT": self.http,
        }


class Losses:
    """The policy for a killed process: end the job, restart the process (servers with a state folder, workers that the
    servers wait for), or continue without it."""

    def __init__(self, env: Mapping[str, str]):
        self.policy = {TRAINER: env.get("OAR_PS_LOST_TRAINER", "end")}
        if env.get("FLAGS_ps_state_folder", "").strip():
            self.policy[SERVER] = "wait"
        self.most = 10 if (most := number(env, "OAR_PS_RESTARTS")) is None else most
        self.count: dict[str, int] = {}

    def take(self, process: Process, others: bool) -> str:
        """One of "end", "wait" (for a restarted process) or "continue"; `others`: the role has other processes."""
        policy = self.policy.get(process.role, "end")
        if policy == "wait":
            self.count[process.name] = self.count.get(process.name, 0) + 1
            return policy if self.count[process.name] <= self.most else "end"
        return "continue" if policy == "continue" and others else "end"


class _Ports:
    """Ports for roles without one: free ones, or consecutive ones from FLAGS_START_PORT (--started_port)."""

    def __init__(self, args: argparse.Namespace, env: Mapping[str, str]):
        self.first = args.started_port or number(env, "FLAGS_START_PORT", 1)

    def take(self, count: int, offset: int) -> list[int]:
        if self.first is None:
            return ports.free(count)
        if self.first + offset + count > 65536:
            raise LaunchError(f"{offset + count} processes from port {self.first} on need ports beyond 65535")
        return [self.first + offset + i for i in range(count)]


def _listed(flag: str, text: str, count: int | None) -> list[str]:
    found = [e.strip() for e in text.split(",") if e.strip()]
    if count and len(found) != count:
        raise LaunchError(f"--{flag}_num={count}, but --{flag}s names {len(found)}: {text}")
    for e in found:
        ports.split(e)
    return found


def _role(flag: str, text: str, count: int | None, offset: int, take: _Ports) -> list[str]:
    """The endpoints of one role: the listed ones, or `count` ones on this machine."""
    if text:
        return _listed(flag, text, count)
    if not count:
        raise LaunchError(f"parameter-server mode needs --{flag}_num or --{flag}s")
    return [ports.join("127.0.0.1", p) for p in take.take(count, offset)]


def roles(args: argparse.Namespace, env: Mapping[str, str]) -> Roles:
    """The endpoints of all roles, by the flags.

    Raises:
        LaunchError: for a missing role, or a count that differs from the list.
    """
    take = _Ports(args, env)
    servers = _role("server", args.servers, args.server_num, 0, take)
    if any(ports.split(e)[1] is None for e in servers):
        raise LaunchError(f"--servers needs ip:port of each server, got {args.servers}")
    workers = _role("worker", args.workers, args.worker_num, len(servers), take)
    if any(ports.split(e)[1] is None for e in workers):
        first = CLOUD_PORT + len(servers)
        workers = [ports.join(ports.split(e)[0], first + i) for i, e in enumerate(workers)]
    heter: list[str] = []
    if args.heter_workers or args.heter_worker_num:
        heter = _role("heter_worker", args.heter_workers, args.heter_worker_num, len(servers) + len(workers), take)
        if any(ports.split(e)[1] is None for e in heter):
            raise LaunchError(f"--heter_workers needs ip:port of each heterogeneous worker, got {args.heter_workers}")
    every = servers + workers + heter
    twice = sorted({e for e in every if every.count(e) > 1})
    if twice:
        raise LaunchError(f"two processes share the endpoint {', '.join(twice)}")
    host = ports.split(servers[0])[0]
    http = args.http_port or take.take(1, len(every))[0]
    return Roles(servers, workers, heter, ports.join(host, http))


def by_cloud(env: Mapping[str, str]) -> bool:
    """Whether the environment of PaddleCloud (or its operator) has the role of this process."""
    has = env.get("PADDLE_PSERVERS_IP_PORT_LIST") and (env.get("TRAINING_ROLE") or env.get("PADDLE_TRAINING_ROLE"))
    return bool(has) and in_cloud(env)


def plan_cloud(env: Mapping[str, str]) -> Job:
    """A job of one process, with the role of the environment."""
    role = env.get("TRAINING_ROLE") or env.get("PADDLE_TRAINING_ROLE") or TRAINER
    if role not in (TRAINER, SERVER, HETER):
        raise LaunchError(f"TRAINING_ROLE is {role!r}: one of {TRAINER}, {SERVER}, {HETER} is needed")
    servers = [e.strip() for e in env["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")]
    workers = [e.strip() for e in env.get("PADDLE_TRAINER_ENDPOINTS", "").split(",") if e.strip()]
    index = number(env, "PADDLE_TRAINER_ID") or 0
    here = ports.join(env["POD_IP"], number(env, "PADDLE_PORT", 1) or ports.split(servers[0])[1] or CLOUD_PORT)
    process = Process(role, index, 0, here, {"TRAINING_ROLE": role})
    host, port = ports.split(servers[0])
    name, token = identity(True, host, env.get("SYS_JOB_ID"), env)
    # the rendezvous is on the node of server 0, at a port derived from the server's
    first = role == SERVER and (index == 0 or here == servers[0])
    place = (host, (port or CLOUD_PORT) + 1)
    return Job([process], workers, name, token, place, first, len(servers) + len(workers), index, ps=True)


def plan(args: argparse.Namespace, env: Mapping[str, str] | None = None) -> Job:
    """The processes of this node in parameter-server mode.

    Raises:
        LaunchError: for flags or an environment that contradict each other.
    """
    env = os.environ if env is None else env
    every = roles(args, env)
    nodes = list(dict.fromkeys(ports.split(e)[0] for e in every.servers + every.workers + every.heter))
    here = nodes[which(nodes, args.node_ip, env)]
    gpus = gpu_ids(args.gpus, env)
    processes: list[Process] = []
    for role, listed in ((SERVER, every.servers), (TRAINER, every.workers), (HETER, every.heter)):
        own = [(rank, e) for rank, e in enumerate(listed) if ports.split(e)[0] == here]
        for index, (rank, endpoint) in enumerate(own):
            variables = every.variables() | {"TRAINING_ROLE": role}
            if role == TRAINER:
                variables["PADDLE_TRAINER_ID"] = str(rank)
            else:
                host, port = ports.split(endpoint)
                variables |= {"PADDLE_PORT": str(port), "POD_IP": host}
            if role != SERVER:
                variables |= {"FLAGS_selected_gpus": "0", "FLAGS_selected_xpus": "0"}
                if gpus:
                    variables["CUDA_VISIBLE_DEVICES"] = gpus[index % len(gpus)]
            processes.append(Process(role, rank, index, endpoint, variables))
    bind_cores(processes, args.cores, env)
    several = len(nodes) > 1
    name, token = identity(several, nodes[0], None, env)
    first = ports.split(every.http)[1] or CLOUD_PORT
    master = (nodes[0], first + 1) if several else ("127.0.0.1", None)
    return Job(processes, every.workers, name, token, master, here == nodes[0], len(nodes), nodes.index(here), ps=True)
