"""Role makers of 1.x: the role of this process in a job, from the environment, the user or MPI."""

from __future__ import annotations

import os
import socket
import warnings
from typing import Any

import numpy as np

from paddle.distributed.fleet.base import gloo as gloo2
from paddle.distributed.fleet.base.role_maker import KnownRole, UnknownRole, needed, position, training_role
from paddle.fluid.core.gloo import Gloo

__all__ = [
    "Role",
    "RoleMakerBase",
    "MPISymetricRoleMaker",
    "UserDefinedRoleMaker",
    "UserDefinedCollectiveRoleMaker",
    "PaddleCloudRoleMaker",
    "GeneralRoleMaker",
    "HeterRoleMaker",
]


class Role:
    """The roles of processes."""

    WORKER = 1
    SERVER = 2
    XPU = 3


class MockBarrier:
    """Barriers and reductions of a single process."""

    def barrier(self) -> None:
        """Returns at once."""

    def barrier_all(self) -> None:
        """Returns at once."""

    def all_reduce(self, obj: Any) -> Any:
        """The argument."""
        return obj

    def all_gather(self, obj: Any) -> list[Any]:
        """The argument, as the list of one rank."""
        return [obj]


class RoleMakerBase(UnknownRole):
    """The base of role makers; subclasses implement the methods that only warn or raise here.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/fluid/incubate (fleet.base.role_maker)
    """

    def is_worker(self) -> bool:
        """Whether this is a worker."""
        return self._is_worker()

    def is_server(self) -> bool:
        """Whether this is a parameter server."""
        return self._is_server()

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self._is_first_worker()

    def worker_num(self) -> int:
        """The number of workers."""
        return self._worker_num()

    def role_id(self) -> int:
        """The index of this process in its role."""
        return self.worker_index() if self.is_worker() else self.server_index()

    def worker_index(self) -> int:
        """The index of this worker."""
        return self._worker_index()

    def server_index(self) -> int:
        """The index of this parameter server."""
        return self._server_index()

    def get_trainer_endpoints(self) -> list[str]:
        """The workers' endpoints, "host:port" each."""
        return self._worker_endpoints

    def get_pserver_endpoints(self) -> list[str]:
        """The parameter servers' endpoints, "host:port" each."""
        return self._get_pserver_endpoints()

    def _alone(self, what: str) -> None:
        warnings.warn(f"{type(self).__name__} has no {what}: this process is not connected to others", stacklevel=3)

    def all_gather(self, input: Any) -> Any:  # noqa: A002
        """The values of all workers and servers, as a list. Here: a warning, and None."""
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


class _Known(KnownRole, RoleMakerBase):
    """Role makers that determine the role on first access, or by :meth:`generate_role`."""

    def generate_role(self) -> None:
        """Determines the role of this process."""
        self._unknown()

    def _generate_role(self) -> None:
        self.generate_role()


class PaddleCloudRoleMaker(_Known):
    """The role in environment variables.

    Args:
        is_collective (bool): whether there are workers only: PADDLE_TRAINER_ID, PADDLE_TRAINER_ENDPOINTS. Otherwise
            PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM, TRAINING_ROLE (TRAINER, with PADDLE_TRAINER_ID; PSERVER,
            with POD_IP and PADDLE_PORT).

    Raises (on first access):
        ValueError: for a variable that is missing or contradicts the others.
    """

    def __init__(self, is_collective: bool = False) -> None:
        super().__init__()
        self._is_collective = is_collective

    def generate_role(self) -> None:
        """Reads the environment, once."""
        if self._role_is_generated:
            return
        if self._is_collective:
            workers = self._read_collective()
            self._current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT")
            assert workers is not None, "can't find PADDLE_TRAINER_ENDPOINTS"
            self._worker_endpoints = workers.split(",")
            self._trainers_num = len(self._worker_endpoints)
        else:
            self._server_endpoints = needed("PADDLE_PSERVERS_IP_PORT_LIST").split(",")
            self._trainers_num = int(needed("PADDLE_TRAINERS_NUM"))
            if training_role("TRAINER", "PSERVER") == "TRAINER":
                self._role, self._current_id = Role.WORKER, int(needed("PADDLE_TRAINER_ID"))
            else:
                endpoint = f"{needed('POD_IP')}:{needed('PADDLE_PORT')}"
                self._role = Role.SERVER
                self._current_id = position(endpoint, self._server_endpoints, "PADDLE_PSERVERS_IP_PORT_LIST")
        self._role_is_generated = True


class _UserDefined(_Known):
    """Role makers by arguments."""

    def _check_endpoints(self, name: str, endpoints: Any) -> None:
        what = f"{type(self).__name__}: {name} must be"
        if not isinstance(endpoints, list) or any(not isinstance(e, str) for e in endpoints):
            raise TypeError(f"{what} a list of str, got {endpoints!r}")
        if not endpoints or len(set(endpoints)) != len(endpoints):
            raise ValueError(f"{what} named, each once, got {endpoints}")

    def _check_int(self, name: str, value: Any, most: int | None = None) -> None:
        what = f"{type(self).__name__}: {name} must be"
        if not isinstance(value, int):
            raise TypeError(f"{what} an int, got {value!r}")
        if most is not None and not 0 <= value < most:
            raise ValueError(f"{what} in [0, {most}), got {value}")

    def generate_role(self) -> None:
        """Does nothing."""
        self._role_is_generated = True


class UserDefinedRoleMaker(_UserDefined):
    """The role given by the arguments.

    Args:
        current_id (int): the index of this process in its role. role (Role): the role.
        worker_num (int): the number of workers, above 0.
        server_endpoints (list[str]): the parameter servers' endpoints, without duplicates.

    Raises:
        TypeError, ValueError: for an argument of another type, out of range, or a duplicate.

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
        self._check_endpoints("server_endpoints", server_endpoints)
        if role not in (Role.WORKER, Role.SERVER):
            raise TypeError(f"UserDefinedRoleMaker: role must be a Role, got {role!r}")
        self._check_int("current_id", current_id)
        self._check_int("worker_num", worker_num)
        if worker_num <= 0:
            raise ValueError(f"UserDefinedRoleMaker: worker_num must be above 0, got {worker_num}")
        assert server_endpoints is not None
        self._check_int("current_id", current_id, len(server_endpoints) if role == Role.SERVER else worker_num)
        self._server_endpoints, self._role = server_endpoints, role
        self._current_id, self._trainers_num = current_id, worker_num


class UserDefinedCollectiveRoleMaker(_UserDefined):
    """A worker of a collective job, given by the arguments.

    Args:
        current_id (int): the index of this worker. worker_endpoints (list[str]): their endpoints, without duplicates.

    Raises:
        TypeError, ValueError: for an argument of another type, out of range, or a duplicate.
    """

    def __init__(self, current_id: int = 0, worker_endpoints: list[str] | None = None) -> None:
        super().__init__()
        self._check_endpoints("worker_endpoints", worker_endpoints)
        assert worker_endpoints is not None
        self._check_int("current_id", current_id, len(worker_endpoints))
        self._worker_endpoints, self._current_id = worker_endpoints, current_id
        self._trainers_num, self._role = len(worker_endpoints), Role.WORKER


class GeneralRoleMaker(_Known):
    """The role in environment variables, with collectives of small values between the processes.

    The variables: PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINER_ENDPOINTS, TRAINING_ROLE (TRAINER, with
    PADDLE_TRAINER_ID; PSERVER, with PADDLE_PSERVER_ID, or POD_IP and PADDLE_PORT), SYS_JOB_ID to separate jobs.

    Args:
        path (str): a shared folder for the rendezvous; or
        http_ip_port (str): "host:port" of the rendezvous server, which trainer 0 runs.
        hdfs_name, hdfs_ugi (str): "" or "NULL": the folder is mounted.

    Raises (on first access):
        ValueError: for a variable that is missing or contradicts the others.
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
        """Reads the environment and connects to the others, once."""
        if self._role_is_generated:
            return
        self._server_endpoints = needed("PADDLE_PSERVERS_IP_PORT_LIST").split(",")
        self._worker_endpoints = needed("PADDLE_TRAINER_ENDPOINTS").split(",")
        self._trainers_num = len(self._worker_endpoints)
        if training_role("TRAINER", "PSERVER") == "TRAINER":
            self._role, self._current_id, among = Role.WORKER, int(needed("PADDLE_TRAINER_ID")), self._worker_endpoints
        else:
            self._role, among = Role.SERVER, self._server_endpoints
            number = os.environ.get("PADDLE_PSERVER_ID")
            endpoint = "" if number else f"{needed('POD_IP')}:{needed('PADDLE_PORT')}"
            self._current_id = int(number) if number else position(endpoint, among, "PADDLE_PSERVERS_IP_PORT_LIST")
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
        """The values of all workers, then of all servers, as a list."""
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
        """The endpoint of this process, "host:port"."""
        return self._known()._cur_endpoint

    def get_trainer_endpoints(self) -> list[str]:
        """The workers' endpoints, "host:port" each."""
        return self._known()._worker_endpoints

    def server_num(self) -> int:
        """The number of parameter servers."""
        return self._server_num()


class _Groups:
    """The groups of connected processes, by the names that GeneralRoleMaker uses."""

    def __init__(self, groups: dict[str, Gloo]) -> None:
        self._groups = groups

    def barrier(self, group: str) -> None:
        self._groups[group].barrier()

    def all_gather(self, value: Any, group: str) -> list[Any]:
        return self._groups[group].all_gather(value)

    def all_reduce(self, values: list, mode: str, group: str) -> list[Any]:
        return self._groups[group].all_reduce(values, mode)


class HeterRoleMaker(GeneralRoleMaker):
    """As GeneralRoleMaker, with additional workers on XPUs: TRAINING_ROLE may be XPU, with PADDLE_XPU_ID and
    PADDLE_XPU_ENDPOINTS. The rendezvous is the folder `path`.

    Examples:
        >>> import os, tempfile
        >>> from paddle.fluid.incubate.fleet.base.role_maker import HeterRoleMaker
        >>> os.environ.update(
        ...     PADDLE_PSERVERS_IP_PORT_LIST="", PADDLE_TRAINER_ENDPOINTS="", PADDLE_XPU_ENDPOINTS="127.0.0.1:1",
        ...     TRAINING_ROLE="XPU", PADDLE_XPU_ID="0")
        >>> role = HeterRoleMaker(path=tempfile.mkdtemp())
        >>> role.is_xpu(), role.is_worker(), role.xpu_num()
        (True, False, 1)
    """

    def generate_role(self) -> None:
        """Reads the environment and connects to the others, once."""
        if self._role_is_generated:
            return

        def endpoints(name: str) -> list[str]:
            return [e for e in needed(name).split(",") if e]

        servers, workers = endpoints("PADDLE_PSERVERS_IP_PORT_LIST"), endpoints("PADDLE_TRAINER_ENDPOINTS")
        xpus = endpoints("PADDLE_XPU_ENDPOINTS")
        kind = training_role("TRAINER", "PSERVER", "XPU")
        if kind == "PSERVER":
            number = os.environ.get("PADDLE_PSERVER_ID")
            endpoint = "" if number else f"{needed('POD_IP')}:{needed('PADDLE_PORT')}"
            current = int(number) if number else position(endpoint, servers, "PADDLE_PSERVERS_IP_PORT_LIST")
            self._role, among, folder = Role.SERVER, servers, "pserver"
        else:
            current = int(needed(f"PADDLE_{kind}_ID"))
            xpu = kind == "XPU"
            self._role, among = (Role.XPU, xpus) if xpu else (Role.WORKER, workers)
            folder = "xpu" if xpu else "trainer"
        if not 0 <= current < len(among):
            raise ValueError(f"HeterRoleMaker: there is no number {current} in the endpoints {among}")
        self._current_id, self._cur_endpoint = current, among[current]
        self._trainers_num, self._xpu_endpoints = len(workers), xpus
        self._server_endpoints, self._worker_endpoints = servers, workers
        own, every = self._connect_group(folder, current, len(among)), [*workers, *servers, *xpus]
        groups = {"server" if kind == "PSERVER" else "xpu" if kind == "XPU" else "worker": own}
        if kind != "PSERVER":
            both = [*workers, *xpus]
            groups["heter"] = self._connect_group("heter", both.index(self._cur_endpoint), len(both))
        groups["all"] = self._connect_group("all", every.index(self._cur_endpoint), len(every))
        self._gloo: Any = _Groups(groups)
        self._role_is_generated = True

    def _connect_group(self, folder: str, rank: int, size: int) -> Gloo:
        group = Gloo()
        group.set_rank(rank)
        group.set_size(size)
        group.set_prefix(self._prefix)
        group.set_hdfs_store(f"{self._path}/{folder}", self._hdfs_name, self._hdfs_ugi)
        group.init()
        return group

    def is_xpu(self) -> bool:
        """Whether this is a worker on an XPU."""
        self.generate_role()
        return self._role == Role.XPU

    def is_first_xpu(self) -> bool:
        """Whether this is XPU worker 0."""
        return self.is_xpu() and self._current_id == 0

    def xpu_num(self) -> int:
        """The number of workers on XPUs."""
        self.generate_role()
        return len(self._xpu_endpoints)

    def _barrier_xpu(self) -> None:
        if self.is_xpu():
            self._gloo.barrier("xpu")

    def _barrier_heter(self) -> None:
        if self.is_xpu() or self.is_worker():
            self._gloo.barrier("heter")


class MPIRoleMaker(RoleMakerBase):
    """The base of roles by MPI's ranks; it needs the package mpi4py (ImportError without it)."""

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
        """Determines the role of this process."""
        self._unknown()

    def _finalize(self) -> None:
        """Finalizes MPI in this process."""
        self.MPI.Finalize()


class MPISymetricRoleMaker(KnownRole, MPIRoleMaker):
    """Of every two ranks of MPI the first is a parameter server, the second a worker."""

    def __init__(self) -> None:
        super().__init__()
        self._proc_per_node = 2

    def _known(self) -> MPISymetricRoleMaker:
        if not self._role_is_generated:
            raise NameError("generate_role() should be called first")
        return self

    def generate_role(self) -> None:
        """Determines the role by MPI, once; collective over all ranks."""
        if self._role_is_generated:
            raise RuntimeError("MPISymetricRoleMaker.generate_role: the role is known already")
        hosts = self._comm.allgather(self.get_local_ip())
        # the same port on every host, above those of launchers
        port = 60001 + len(hosts) // 2 % 3999
        self._server_endpoints = [f"{host}:{port}" for host in hosts[::2]]
        self._worker_endpoints = hosts[1::2]
        self._role = Role.WORKER if self._get_rank() % 2 else Role.SERVER
        self._current_id = self._get_rank() // self._proc_per_node
        self._node_type_comm = self._comm.Split(self._role)
        self._role_is_generated = True

    def _worker_num(self) -> int:
        return self._known()._get_size() // self._proc_per_node

    def all_gather(self, input: Any) -> list[Any]:  # noqa: A002
        """The values of all ranks, as a list."""
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
