"""The job of a launcher: the processes of one node, each with its environment."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import ports
from .args import LaunchError

TRAINER, SERVER, HETER = "TRAINER", "PSERVER", "HETER_TRAINER"
LOGS = {TRAINER: "workerlog", SERVER: "serverlog", HETER: "heterlog"}
NAMES = {TRAINER: "rank", SERVER: "server", HETER: "heterogeneous worker"}


@dataclass
class Process:
    """The specification of one process."""

    role: str
    rank: int
    # The index among the processes of its role on this node; in the name of its log.
    index: int
    endpoint: str
    env: dict[str, str] = field(default_factory=dict)
    cores: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{NAMES[self.role]} {self.rank}"

    @property
    def log(self) -> str:
        return f"{LOGS[self.role]}.{self.index}"


@dataclass
class Job:
    """The processes of this node, and the rendezvous of all nodes."""

    processes: list[Process]
    # The endpoints of all trainers, on all nodes.
    endpoints: list[str]
    name: str
    # Hexadecimal; empty only on one machine without a token in the environment.
    token: str
    # Host and port of the rendezvous; port None: a free one.
    master: tuple[str, int | None]
    hosts_master: bool
    nodes: int = 1
    index: int = 0
    ps: bool = False
    # Whether the endpoints of other launchers' processes are guesses, to be replaced through the store.
    unsettled: bool = False

    def rendezvous(self, address: str) -> None:
        """Sets the rendezvous in the environment of every process."""
        shared = {"PADDLE_MASTER": address, "OAR_JOB_NAME": self.name, "OAR_JOB_TOKEN": self.token}
        for p in self.processes:
            p.env.update({k: v for k, v in shared.items() if v})


def identity(several: bool, master: str, name: str | None, env: Mapping[str, str]) -> tuple[str, str]:
    """The name and the token of a job; those of several launchers come from the environment.

    Raises:
        LaunchError: for launchers on several machines without a token, or a token that is not hexadecimal.
    """
    token = env.get("OAR_JOB_TOKEN", "")
    try:
        bytes.fromhex(token)
    except ValueError:
        raise LaunchError("OAR_JOB_TOKEN is not hexadecimal: make one by `openssl rand -hex 32`") from None
    if not several:
        return f"job-{secrets.token_hex(4)}", secrets.token_hex(32)
    if not token and not ports.loopback(ports.resolve(master)):
        raise LaunchError(
            "a job on several nodes listens beyond this machine and needs a secret that its launchers "
            "share: set OAR_JOB_TOKEN to the same value on every node (`openssl rand -hex 32` makes one)"
        )
    return env.get("OAR_JOB_NAME") or name or "job", token
