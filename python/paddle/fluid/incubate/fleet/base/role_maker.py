"""Role makers of 1.x: which of a job's processes this one is, from the environment, the user or MPI."""
from __future__ import annotations

import os
import socket
import warnings
from typing import Any

import numpy as np

from paddle.distributed.fleet.base import gloo as gloo2

__all__ = [
    "Role", "RoleMakerBase", "MPISymetricRoleMaker", "UserDefinedRoleMaker", "UserDefinedCollectiveRoleMaker",
    "PaddleCloudRoleMaker", "GeneralRoleMaker",
]  # fmt: skip


class Role:
    """What a process is."""

    WORKER = 1
    SERVER = 2
    XPU = 3


class MockBarrier:
    """Stands for the others where nobody is waited for."""

    def barrier(self) -> None:
        """Waits for nobody."""

    def barrier_all(self) -> None:
        """Waits for nobody."""

    def all_reduce(self, obj: Any) -> Any:
        """What it got."""
        return obj

    def all_gather(self, obj: Any) -> list[Any]:
        """What it got, as the list of one rank."""
        return [obj]


class RoleMakerBase:
    """What fleet asks a role maker; a base for one's own, which says what this one cannot.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/fluid/incubate (fleet.base.role_maker)
    """

    def __init__(self) -> None:
        self._worker_endpoints: list[str] = []
        self._server_endpoints: list[str] = []
        self._role_is_generated = False
        self._role: int | None = None
        self._current_id = -1

    def _unknown(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say this: a role maker's own class has to")

    def is_worker(self) -> bool:
        """Whether this is a worker."""
        return self._unknown()

    def is_server(self) -> bool:
        """Whether this is a parameter server."""
        return self._unknown()

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self._unknown()

    def worker_num(self) -> int:
        """How many workers there are."""
        return self._unknown()

    def role_id(self) -> int:
        """This process's number among those of its role."""
        return self.worker_index() if self.is_worker() else self.server_index()

    def worker_index(self) -> int:
        """This process's number among the workers."""
        return self._unknown()

    def server_index(self) -> int:
        """This process's number among the parameter servers."""
        return self._unknown()

    def get_trainer_endpoints(self) -> list[str]:
        """Where the workers are, "host:port" each."""
        return self._worker_endpoints

    def get_pserver_endpoints(self) -> list[str]:
        """Where the parameter servers are, "host:port" each."""
        return self._server_endpoints

    def to_string(self) -> str:
        """Role, number and endpoints in a line."""
        return (
            f"role: {self._role}, current_id: {self._current_id}, worker_endpoints: {self._worker_endpoints}, "
            f"server_endpoints: {self._server_endpoints}"
        )

    def _alone(self, what: str) -> None:
        warnings.warn(f"{type(self).__name__} has no {what}: this process talks to nobody", stacklevel=3)

    def all_gather(self, input: Any) -> Any:  # noqa: A002
        """The numbers of all workers and servers, as a list. Here: a warning, and None."""
        self._alone("all_gather")

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:  # noqa: A002
        """Puts the sum (or "min", "max") of the workers' arrays of one dimension into `output`. Here: a warning."""
        self._alone("all_reduce_worker")

    def barrier_worker(self) -> None:
        """Waits for the workers. Here: a warning."""
        self._alone("barrier_worker")

    def barrier_all(self) -> None:
        """Waits for workers and servers. Here: a warning."""
        self._alone("barrier_all")


class _Known(RoleMakerBase):
    """Questions whose answers :meth:`generate_role` finds, at the first one."""

    _trainers_num = 0

    def generate_role(self) -> None:
        """Finds out what this process is."""
        self._unknown()

    def _known(self) -> Any:
        if not self._role_is_generated:
            self.generate_role()
        return self

    def is_worker(self) -> bool:
        """Whether this is a worker."""
        return self._known()._role == Role.WORKER

    def is_server(self) -> bool:
        """Whether this is a parameter server."""
        return self._known()._role == Role.SERVER

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self.is_worker() and self._current_id == 0

    def worker_index(self) -> int:
        """This process's number among the workers."""
        return self._known()._current_id

    def server_index(self) -> int:
        """This process's number among the parameter servers."""
        return self._known()._current_id

    def worker_num(self) -> int:
        """How many workers there are."""
        return self._known()._trainers_num

    def get_pserver_endpoints(self) -> list[str]:
        """Where the parameter servers are, "host:port" each."""
        return self._known()._server_endpoints


def _needed(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(f"role maker: the environment variable {name} is not set")
    return value


def _position(endpoint: str, endpoints: list[str], name: str) -> int:
    if endpoint not in endpoints:
        raise ValueError(f"role maker: {endpoint} (POD_IP:PADDLE_PORT) is not in {name}, {endpoints}")
    return endpoints.index(endpoint)


def _role_of_environment() -> str:
    role = _needed("TRAINING_ROLE")
    if role not in ("TRAINER", "PSERVER"):
        raise ValueError(f"TRAINING_ROLE must be PSERVER or TRAINER, got {role}")
    return role


class PaddleCloudRoleMaker(_Known):
    """The role that environment variables say.

    Args:
        is_collective (bool): whether there are workers only: PADDLE_TRAINER_ID, PADDLE_TRAINER_ENDPOINTS. Otherwise
            PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM, TRAINING_ROLE (TRAINER, with PADDLE_TRAINER_ID; PSERVER,
            with POD_IP and PADDLE_PORT).

    Raises (at the first question):
        ValueError: for a variable that is missing, or does not fit the others.
    """

    def __init__(self, is_collective: bool = False) -> None:
        super().__init__()
        self._is_collective = is_collective

    def generate_role(self) -> None:
        """Reads the environment, once."""
        if self._role_is_generated:
            return
        if self._is_collective:
            self._current_id = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
            self._training_role = os.environ.get("PADDLE_TRAINING_ROLE", "TRAINER")
            assert self._training_role == "TRAINER", "in a collective job PADDLE_TRAINING_ROLE is TRAINER"
            workers = os.environ.get("PADDLE_TRAINER_ENDPOINTS")
            self._current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT")
            assert workers is not None, "can't find PADDLE_TRAINER_ENDPOINTS"
            self._worker_endpoints = workers.split(",")
            self._trainers_num, self._role = len(self._worker_endpoints), Role.WORKER
        else:
            self._server_endpoints = _needed("PADDLE_PSERVERS_IP_PORT_LIST").split(",")
            self._trainers_num = int(_needed("PADDLE_TRAINERS_NUM"))
            if _role_of_environment() == "TRAINER":
                self._role, self._current_id = Role.WORKER, int(_needed("PADDLE_TRAINER_ID"))
            else:
                endpoint = f"{_needed('POD_IP')}:{_needed('PADDLE_PORT')}"
                self._role = Role.SERVER
                self._current_id = _position(endpoint, self._server_endpoints, "PADDLE_PSERVERS_IP_PORT_LIST")
        self._role_is_generated = True


class UserDefinedRoleMaker(_Known):
    """The role that the arguments say.

    Args:
        current_id (int): this process's number among those of its role. role (Role): what it is.
        worker_num (int): how many workers there are, above 0.
        server_endpoints (list[str]): where the parameter servers are, each once.

    Raises:
        TypeError, ValueError: for an argument of another type, out of range, or named twice.

    Examples:
        >>> from paddle.fluid.incubate.fleet.base import role_maker
        >>> role = role_maker.UserDefinedRoleMaker(
        ...     current_id=1, role=role_maker.Role.WORKER, worker_num=2, server_endpoints=["127.0.0.1:36011"])
        >>> role.is_worker(), role.worker_index(), role.worker_num()
        (True, 1, 2)
    """

    def __init__(
        self,
        current_id: int = 0,
        role: int = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: list[str] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(server_endpoints, list):
            raise TypeError(f"UserDefinedRoleMaker: server_endpoints must be a list of str, got {server_endpoints!r}")
        if not server_endpoints or len(set(server_endpoints)) != len(server_endpoints):
            raise ValueError(f"UserDefinedRoleMaker: server_endpoints must be named, each once, got {server_endpoints}")
        if any(not isinstance(e, str) for e in server_endpoints):
            raise TypeError(f"UserDefinedRoleMaker: server_endpoints must be a list of str, got {server_endpoints!r}")
        if role not in (Role.WORKER, Role.SERVER):
            raise TypeError(f"UserDefinedRoleMaker: role must be a Role, got {role!r}")
        for name, value in (("current_id", current_id), ("worker_num", worker_num)):
            if not isinstance(value, int):
                raise TypeError(f"UserDefinedRoleMaker: {name} must be an int, got {value!r}")
        most = len(server_endpoints) if role == Role.SERVER else worker_num
        if worker_num <= 0:
            raise ValueError(f"UserDefinedRoleMaker: worker_num must be above 0, got {worker_num}")
        if not 0 <= current_id < most:
            raise ValueError(f"UserDefinedRoleMaker: current_id must be in [0, {most}), got {current_id}")
        self._server_endpoints, self._role = server_endpoints, role
        self._current_id, self._trainers_num = current_id, worker_num

    def generate_role(self) -> None:
        """Nothing is left to find out."""
        self._role_is_generated = True


class UserDefinedCollectiveRoleMaker(_Known):
    """A worker among workers that talk to each other, as the arguments say.

    Args:
        current_id (int): this worker's number. worker_endpoints (list[str]): where the workers are, each once.

    Raises:
        TypeError, ValueError: for an argument of another type, out of range, or named twice.
    """

    def __init__(self, current_id: int = 0, worker_endpoints: list[str] | None = None) -> None:
        super().__init__()
        if not isinstance(worker_endpoints, list) or any(not isinstance(e, str) for e in worker_endpoints):
            what = "UserDefinedCollectiveRoleMaker: worker_endpoints must be a list of str"
            raise TypeError(f"{what}, got {worker_endpoints!r}")
        if not worker_endpoints or len(set(worker_endpoints)) != len(worker_endpoints):
            what = "UserDefinedCollectiveRoleMaker: worker_endpoints must be named, each once"
            raise ValueError(f"{what}, got {worker_endpoints}")
        if not isinstance(current_id, int):
            raise TypeError(f"UserDefinedCollectiveRoleMaker: current_id must be an int, got {current_id!r}")
        if not 0 <= current_id < len(worker_endpoints):
            most = len(worker_endpoints)
            raise ValueError(f"UserDefinedCollectiveRoleMaker: current_id must be in [0, {most}), got {current_id}")
        self._worker_endpoints, self._current_id = worker_endpoints, current_id
        self._trainers_num, self._role = len(worker_endpoints), Role.WORKER

    def generate_role(self) -> None:
        """Nothing is left to find out."""
        self._role_is_generated = True


class GeneralRoleMaker(_Known):
    """The role that environment variables say, with barriers and sums of small values between the processes.

    The variables: PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINER_ENDPOINTS, TRAINING_ROLE (TRAINER, with
    PADDLE_TRAINER_ID; PSERVER, with PADDLE_PSERVER_ID, or POD_IP and PADDLE_PORT), SYS_JOB_ID to keep jobs apart.

    Args:
        path (str): a folder that all processes see, in which they meet; or
        http_ip_port (str): "host:port" at which they meet: trainer 0 runs the server.
        hdfs_name, hdfs_ugi (str): "" or "NULL": the folder is mounted.

    Raises (at the first question):
        ValueError: for a variable that is missing, or does not fit the others.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._path = str(kwargs.get("path", "")).rstrip("/")
        self._hdfs_name = kwargs.get("hdfs_name", "") or "NULL"
        self._hdfs_ugi = kwargs.get("hdfs_ugi", "") or "NULL"
        self._http = kwargs.get("http_ip_port", "")
        self._prefix = os.environ.get("SYS_JOB_ID", "")
        self._gloo = gloo2.Gloo()

    def generate_role(self) -> None:
        """Reads the environment and meets the others, once."""
        if self._role_is_generated:
            return
        self._server_endpoints = _needed("PADDLE_PSERVERS_IP_PORT_LIST").split(",")
        self._worker_endpoints = _needed("PADDLE_TRAINER_ENDPOINTS").split(",")
        self._trainers_num = len(self._worker_endpoints)
        if _role_of_environment() == "TRAINER":
            self._role, self._current_id, among = Role.WORKER, int(_needed("PADDLE_TRAINER_ID")), self._worker_endpoints
        else:
            self._role, among = Role.SERVER, self._server_endpoints
            number = os.environ.get("PADDLE_PSERVER_ID")
            endpoint = "" if number else f"{_needed('POD_IP')}:{_needed('PADDLE_PORT')}"
            self._current_id = int(number) if number else _position(endpoint, among, "PADDLE_PSERVERS_IP_PORT_LIST")
        if not 0 <= self._current_id < len(among):
            raise ValueError(f"GeneralRoleMaker: there is no number {self._current_id} in the endpoints {among}")
        self._cur_endpoint = among[self._current_id]
        settings: dict[str, Any] = {"store.prefix": self._prefix}
        if self._http:
            host, _, port = self._http.partition(":")
            hosts = self._role == Role.WORKER and self._current_id == 0
            settings |= {"http.host": host, "http.port": port, "start_http_server": hosts}
            way = gloo2.Gloo.RENDEZVOUS.HTTP
        else:
            settings |= {"dfs.name": self._hdfs_name, "dfs.ugi": self._hdfs_ugi, "dfs.path": self._path}
            way = gloo2.Gloo.RENDEZVOUS.HDFS
        role = gloo2.Role.WORKER if self._role == Role.WORKER else gloo2.Role.SERVER
        servers = len(self._server_endpoints)
        self._gloo.init(way, role, self._current_id, self._trainers_num, servers, True, settings)
        self._role_is_generated = True

    def all_gather(self, input: Any) -> Any:  # noqa: A002
        """The numbers of all workers, then of all servers, as a list."""
        return self._known()._gloo.all_gather(input, "all")

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:  # noqa: A002
        """Puts the sum (or "min", "max") of the workers' arrays of one dimension into `output`; servers do nothing."""
        if self.is_worker():
            for i, value in enumerate(self._gloo.all_reduce(list(input), mode, "worker")):
                output[i] = value

    def barrier_worker(self) -> None:
        """Waits for the workers; servers do nothing."""
        if self.is_worker():
            self._gloo.barrier("worker")

    def barrier_all(self) -> None:
        """Waits for workers and servers."""
        self._known()._gloo.barrier("all")

    def get_local_endpoint(self) -> str:
        """Where this process is, "host:port"."""
        return self._known()._cur_endpoint

    def get_trainer_endpoints(self) -> list[str]:
        """Where the workers are, "host:port" each."""
        return self._known()._worker_endpoints

    def server_num(self) -> int:
        """How many parameter servers there are."""
        return len(self._known()._server_endpoints)


class MPIRoleMaker(RoleMakerBase):
    """A base for roles that MPI's ranks say; it needs the package mpi4py (ImportError without it)."""

    def __init__(self) -> None:
        super().__init__()
        from mpi4py import MPI

        self.MPI = MPI
        self._comm: Any = MPI.COMM_WORLD
        self._node_type_comm: Any = None

    def _get_rank(self) -> int:
        return self._comm.Get_rank()

    def _get_size(self) -> int:
        return self._comm.Get_size()

    def get_local_ip(self) -> str:
        """The address of this host."""
        return socket.gethostbyname(socket.gethostname())

    def generate_role(self) -> None:
        """Finds out what this process is."""
        self._unknown()


class MPISymetricRoleMaker(MPIRoleMaker):
    """Of every two ranks of MPI the first is a parameter server, the second a worker."""

    def __init__(self) -> None:
        super().__init__()
        self._proc_per_node = 2

    def _known(self) -> MPISymetricRoleMaker:
        if not self._role_is_generated:
            raise NameError("generate_role() should be called first")
        return self

    def generate_role(self) -> None:
        """Asks MPI, once; all ranks have to."""
        if self._role_is_generated:
            raise RuntimeError("MPISymetricRoleMaker.generate_role: the role is known already")
        hosts = self._comm.allgather(self.get_local_ip())
        # The same port on every host, above those that launchers use.
        port = 60001 + len(hosts) // 2 % 3999
        self._server_endpoints = [f"{host}:{port}" for host in hosts[::2]]
        self._worker_endpoints = hosts[1::2]
        self._role = Role.WORKER if self._get_rank() % 2 else Role.SERVER
        self._current_id = self._get_rank() // self._proc_per_node
        self._node_type_comm = self._comm.Split(self._role)
        self._role_is_generated = True

    def is_worker(self) -> bool:
        """Whether this is a worker."""
        return self._known()._role == Role.WORKER

    def is_server(self) -> bool:
        """Whether this is a parameter server."""
        return self._known()._role == Role.SERVER

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self.is_worker() and self._current_id == 0

    def worker_num(self) -> int:
        """How many workers there are."""
        return self._known()._get_size() // self._proc_per_node

    def worker_index(self) -> int:
        """This process's number among the workers."""
        return self._known()._current_id

    def server_index(self) -> int:
        """This process's number among the parameter servers."""
        return self._known()._current_id

    def get_pserver_endpoints(self) -> list[str]:
        """Where the parameter servers are, "host:port" each."""
        return self._known()._server_endpoints

    def all_gather(self, input: Any) -> list[Any]:  # noqa: A002
        """The numbers of all ranks, as a list."""
        return self._known()._comm.allgather(input)

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:  # noqa: A002
        """Puts the sum (or "min", "max") of the workers' arrays of one dimension into `output`; servers do nothing."""
        if self.is_worker():
            ways: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}
            if mode not in ways:
                raise ValueError(f"all_reduce_worker: mode must be sum, max or min, got {mode!r}")
            output[:] = ways[mode](self._node_type_comm.allgather(np.asarray(input)), axis=0)

    def barrier_worker(self) -> None:
        """Waits for the workers; servers do nothing."""
        if self.is_worker():
            self._node_type_comm.barrier()

    def barrier_all(self) -> None:
        """Waits for all ranks."""
        self._known()._comm.barrier()
