"""The nodes of a job as described by 2.0.2's helpers; re-exported by `paddle.distributed.utils`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=True)
class Hdfs:
    """The location of a job's files on HDFS."""

    hdfs_ugi: str | None = None
    hdfs_name: str | None = None
    hdfs_path: str | None = None

    def is_valid(self) -> bool:
        return None not in (self.hdfs_ugi, self.hdfs_name, self.hdfs_path)


@dataclass(eq=True)
class JobServer:
    endpoint: str | None = None

    def __str__(self) -> str:
        return str(self.endpoint)


@dataclass(eq=True)
class Trainer:
    """One process."""

    gpus: list = field(default_factory=list)
    endpoint: str | None = None
    rank: int | None = None

    def __str__(self) -> str:
        return f"gpu:{self.gpus} endpoint:{self.endpoint} rank:{self.rank}"


@dataclass(eq=True)
class Pod:
    """The processes of one node."""

    rank: int | None = None
    id: Any = None
    addr: str | None = None
    port: int | None = None
    trainers: list[Trainer] = field(default_factory=list)
    servers: list[Trainer] = field(default_factory=list)
    workers: list[Trainer] = field(default_factory=list)
    heter_workers: list[Trainer] = field(default_factory=list)
    gpus: list = field(default_factory=list, compare=False)

    def __str__(self) -> str:
        return (
            f"rank:{self.rank} id:{self.id} addr:{self.addr} port:{self.port} visible_gpu:{self.gpus} "
            f"trainers:{[str(t) for t in self.trainers]}"
        )

    def get_visible_gpus(self) -> str:
        assert self.gpus, f"this pod {self} can't see any gpus"
        return ",".join(str(g) for g in self.gpus)


@dataclass(eq=False)
class Cluster:
    """All nodes."""

    hdfs: Hdfs | None = None
    job_server: JobServer | None = None
    pods: list[Pod] = field(default_factory=list)
    job_stage_flag: Any = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cluster):
            return NotImplemented
        return self.pods == other.pods and self.job_stage_flag == other.job_stage_flag

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return (
            f"job_server:{self.job_server} pods:{[str(p) for p in self.pods]} "
            f"job_stage_flag:{self.job_stage_flag} hdfs:{self.hdfs}"
        )

    def update_pods(self, cluster: Cluster) -> None:
        self.pods = list(cluster.pods)

    def trainers_nranks(self) -> int:
        return len(self.trainers_endpoints())

    def pods_nranks(self) -> int:
        return len(self.pods)

    def trainers_endpoints(self) -> list[str | None]:
        return [t.endpoint for pod in self.pods for t in pod.trainers]

    def pods_endpoints(self) -> list[str]:
        for pod in self.pods:
            assert pod.addr is not None and pod.port is not None, f"{pod.addr}:{pod.port} not a valid endpoint"
        return [f"{pod.addr}:{pod.port}" for pod in self.pods]

    def get_pod_by_id(self, pod_id: Any) -> Pod | None:
        return next((pod for pod in self.pods if str(pod.id) == str(pod_id)), None)


def make(node_ips: list[str], node_ip: str, trainer_endpoints: list, devices: list) -> tuple[Cluster, Pod]:
    """The cluster and this node. `devices` has an entry for each process of a node: a GPU, a list of them, or None."""
    assert isinstance(trainer_endpoints, list), "trainer_endpoints: a list is expected"
    cluster, rank = Cluster(), 0
    for number, (ip, endpoints) in enumerate(zip(node_ips, trainer_endpoints, strict=False)):
        assert len(endpoints) >= len(devices), f"node {ip} has {len(endpoints)} endpoints for {len(devices)} processes"
        pod = Pod(rank=number, addr=ip)
        for own, endpoint in zip(devices, endpoints, strict=False):
            gpus = [] if own is None else list(own) if isinstance(own, list | tuple) else [own]
            pod.trainers.append(Trainer(gpus, str(endpoint), rank))
            rank += 1
        cluster.pods.append(pod)
    return cluster, cluster.pods[node_ips.index(node_ip)]
