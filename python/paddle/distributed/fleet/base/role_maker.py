"""Role makers: the role of this process in a job, from the environment or from the user."""

from __future__ import annotations

import os
import warnings
from typing import Any

from paddle._basics.mode import in_static_mode

from .gloo import Gloo, Role

__all__ = ["Role", "Gloo", "RoleMakerBase", "PaddleCloudRoleMaker", "UserDefinedRoleMaker"]


def _hosts(endpoints: list[str]) -> int:
    return len({e.split(":")[0] for e in endpoints})


class UnknownRole:
    """The interface of the role makers of fleet and fluid; each method raises NotImplementedError."""

    def __init__(self) -> None:
        self._worker_endpoints: list[str] = []
        self._server_endpoints: list[str] = []
        self._role_is_generated = False
        self._role: int | None = None
        self._current_id = -1

    def _unknown(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not implement this: a role maker has to")

    def _is_worker(self) -> bool:
        return self._unknown()

    def _is_server(self) -> bool:
        return self._unknown()

    def _is_first_worker(self) -> bool:
        return self._unknown()

    def _worker_num(self) -> int:
        return self._unknown()

    def _server_num(self) -> int:
        return self._unknown()

    def _worker_index(self) -> int:
        return self._unknown()

    def _server_index(self) -> int:
        return self._unknown()

    def _role_id(self) -> int:
        return self._unknown()

    def _node_num(self) -> int:
        return self._unknown()

    def _get_trainer_endpoints(self) -> list[str]:
        return self._worker_endpoints

    def _get_pserver_endpoints(self) -> list[str]:
        return self._server_endpoints

    def to_string(self) -> str:
        """Role, index and endpoints as one line."""
        return (
            f"role: {self._role}, current_id: {self._current_id}, worker_endpoints: {self._worker_endpoints}, "
            f"server_endpoints: {self._server_endpoints}"
        )


class KnownRole(UnknownRole):
    """A role maker that determines the role on first access, and keeps it in fields."""

    _trainers_num = 0

    def _generate_role(self) -> None:
        """Determines the role, once."""
        self._unknown()

    def _known(self) -> Any:
        if not self._role_is_generated:
            self._generate_role()
        return self

    def _is_worker(self) -> bool:
        return self._known()._role == Role.WORKER

    def _is_server(self) -> bool:
        return self._known()._role == Role.SERVER

    def _is_first_worker(self) -> bool:
        return self._is_worker() and self._current_id == 0

    def _worker_index(self) -> int:
        return self._known()._current_id

    def _server_index(self) -> int:
        return self._known()._current_id

    def _role_id(self) -> int:
        return self._known()._current_id

    def _worker_num(self) -> int:
        return self._known()._trainers_num

    def _server_num(self) -> int:
        return len(self._known()._server_endpoints or [])

    def _get_trainer_endpoints(self) -> list[str]:
        return self._known()._worker_endpoints

    def _get_pserver_endpoints(self) -> list[str]:
        return self._known()._server_endpoints

    def _read_collective(self) -> str | None:
        """Reads a worker's index from the environment; returns PADDLE_TRAINER_ENDPOINTS."""
        self._current_id = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
        self._training_role = os.environ.get("PADDLE_TRAINING_ROLE", "TRAINER")
        assert self._training_role == "TRAINER", "in a collective job PADDLE_TRAINING_ROLE is TRAINER"
        self._role = Role.WORKER
        return os.environ.get("PADDLE_TRAINER_ENDPOINTS")


def needed(name: str) -> str:
    """The environment variable; ValueError for one that is not set."""
    value = os.environ.get(name)
    if value is None:
        raise ValueError(f"role maker: the environment variable {name} is not set")
    return value


def position(endpoint: str, endpoints: list[str], name: str) -> int:
    """The index of this server among the endpoints in the variable `name`."""
    if endpoint not in endpoints:
        raise ValueError(f"role maker: {endpoint} (POD_IP:PADDLE_PORT) is not in {name}, {endpoints}")
    return endpoints.index(endpoint)


def training_role(*known: str) -> str:
    """TRAINING_ROLE; ValueError for an unknown role."""
    role = needed("TRAINING_ROLE")
    if role not in known:
        raise ValueError(f"TRAINING_ROLE must be one of {', '.join(known)}, got {role}")
    return role


class RoleMakerBase(UnknownRole):
    """The base of user-defined role makers: collectives only warn.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/PaddleCloudRoleMaker_en.html
    """

    def __init__(self) -> None:
        super().__init__()
        self._heter_trainer_endpoints: list[str] = []
        self._heter_trainer_device = "CPU"
        self._is_heter_parameter_server_mode = False

    def _all_gather(self, input: Any, comm_world: str = "worker") -> Any:  # noqa: A002
        warnings.warn("RoleMakerBase has no all_gather: nothing was sent", stacklevel=2)

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:  # noqa: A002
        warnings.warn("RoleMakerBase has no all_reduce: nothing was sent", stacklevel=2)

    def _barrier(self, comm_world: str) -> None:
        warnings.warn("RoleMakerBase has no barrier: there was no waiting", stacklevel=2)

    def _is_heter_worker(self) -> bool:
        warnings.warn("RoleMakerBase knows no heterogeneous workers", stacklevel=2)
        return False

    def _heter_worker_num(self) -> int:
        warnings.warn("RoleMakerBase knows no heterogeneous workers", stacklevel=2)
        return 0

    def _get_heter_worker_endpoints(self) -> list[str]:
        assert self._heter_trainer_endpoints, "there are no heterogeneous workers in this job"
        return self._heter_trainer_endpoints

    def _get_heter_worker_endpoint(self) -> str:
        endpoints = self._get_heter_worker_endpoints()
        return endpoints[self._current_id % len(endpoints)]


class PaddleCloudRoleMaker(KnownRole, RoleMakerBase):
    """The role in environment variables, as set by the launcher, PaddleCloud or the user.

    Args:
        is_collective (bool): whether the job is collective, all processes workers: PADDLE_TRAINER_ID,
            PADDLE_TRAINER_ENDPOINTS. Otherwise the job has parameter servers: PADDLE_PSERVERS_IP_PORT_LIST,
            PADDLE_TRAINERS_NUM, TRAINING_ROLE (TRAINER, with PADDLE_TRAINER_ID; PSERVER, with POD_IP and PADDLE_PORT).
            Without these variables the job has a single process.

    Raises (on first access):
        ValueError: for a variable that is missing or contradicts the others.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/PaddleCloudRoleMaker_en.html

    Examples:
        >>> from paddle.distributed import fleet
        >>> role = fleet.PaddleCloudRoleMaker(is_collective=True)
        >>> print(role.to_string().split(",")[0])
        role: None
    """

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        super().__init__()
        self._is_collective = is_collective
        self._non_distributed = False
        self._kwargs = kwargs
        self._gloo = Gloo()
        self._trainers_num = 1
        self._nodes_num = 1
        self._heter_trainers_num = 0
        self._cur_endpoint = ""

    def _barrier(self, comm_world: str) -> None:
        self._gloo.barrier(comm_world)

    def _all_gather(self, input: Any, comm_world: str = "worker") -> Any:  # noqa: A002
        return self._gloo.all_gather(input, comm_world)

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:  # noqa: A002
        return self._gloo.all_reduce(input, mode, comm_world)

    def _node_num(self) -> int:
        return self._known()._nodes_num

    def _is_non_distributed(self) -> bool:
        """Whether the variables describe a single process."""
        return self._known()._non_distributed

    def _heter_worker_num(self) -> int:
        return self._known()._heter_trainers_num

    def _is_heter_worker(self) -> bool:
        return self._known()._role == Role.HETER_WORKER

    # ------------------------------------------------------------------------------------------- the environment

    def _ps_env(self) -> None:
        servers = os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST")
        if servers is None:
            self._role, self._current_id, self._non_distributed = Role.WORKER, 0, True
            return
        self._server_endpoints = servers.split(",")
        workers = os.environ.get("PADDLE_TRAINER_ENDPOINTS")
        self._worker_endpoints = workers.split(",") if workers is not None else []
        self._trainers_num = int(needed("PADDLE_TRAINERS_NUM"))
        role = training_role("TRAINER", "PSERVER", "HETER_TRAINER")
        heter = os.environ.get("PADDLE_HETER_TRAINER_IP_PORT_LIST", "")
        self._heter_trainer_endpoints = heter.split(",") if heter else []
        self._is_heter_parameter_server_mode = bool(heter)
        self._heter_trainers_num = len(self._heter_trainer_endpoints)
        if role == "TRAINER":
            self._role, self._current_id = Role.WORKER, int(needed("PADDLE_TRAINER_ID"))
            if self._worker_endpoints:
                if not 0 <= self._current_id < len(self._worker_endpoints):
                    raise ValueError(
                        f"PADDLE_TRAINER_ID is {self._current_id}, PADDLE_TRAINER_ENDPOINTS has "
                        f"{len(self._worker_endpoints)} entries"
                    )
                self._cur_endpoint = self._worker_endpoints[self._current_id]
        else:
            port, host = needed("PADDLE_PORT"), needed("POD_IP")
            self._cur_endpoint = f"{host}:{port}"
            server = role == "PSERVER"
            self._role = Role.SERVER if server else Role.HETER_WORKER
            name = "PADDLE_PSERVERS_IP_PORT_LIST" if server else "PADDLE_HETER_TRAINER_IP_PORT_LIST"
            among = self._server_endpoints if server else self._heter_trainer_endpoints
            self._current_id = position(self._cur_endpoint, among, name)
        self._nodes_num = _hosts(self._worker_endpoints)

    def _collective_env(self) -> None:
        workers = self._read_collective()
        self._cur_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT", "")
        if workers is None:
            workers = self._cur_endpoint = "127.0.0.1:6170"
            self._non_distributed = True
        self._worker_endpoints = workers.split(",")
        self._trainers_num = len(self._worker_endpoints)
        self._nodes_num = _hosts(self._worker_endpoints)

    def _gloo_init(self) -> None:
        """Initializes Gloo by PADDLE_WITH_GLOO: among one role (1), or workers and servers, too (2)."""
        use = int(os.environ.get("PADDLE_WITH_GLOO", "0"))
        if use not in (1, 2):
            return
        rendezvous = int(os.environ.get("PADDLE_GLOO_RENDEZVOUS", "0"))
        settings: dict[str, Any] = {"store.prefix": os.environ.get("SYS_JOB_ID", "")}
        if rendezvous == Gloo.RENDEZVOUS.HTTP:
            if self._is_collective:
                endpoint, hosts = self._worker_endpoints[0], self._is_first_worker()
            else:
                endpoint = os.environ.get("PADDLE_GLOO_HTTP_ENDPOINT", "")
                hosts = self._is_server() and self._server_index() == 0
            host, _, port = endpoint.partition(":")
            settings |= {"http.host": host, "http.port": port, "start_http_server": hosts}
        elif rendezvous in (Gloo.RENDEZVOUS.HDFS, Gloo.RENDEZVOUS.FILE):
            for key, name in (("dfs.name", "NAME"), ("dfs.ugi", "UGI"), ("dfs.path", "PATH")):
                settings[key] = os.environ.get(f"PADDLE_GLOO_FS_{name}", "")
        role = Role.WORKER if self._role == Role.WORKER else Role.SERVER
        self._gloo.init(rendezvous, role, self._role_id(), self._worker_num(), self._server_num(), use == 2, settings)

    def _generate_role(self) -> None:
        """Reads the environment, once."""
        if not self._role_is_generated:
            self._collective_env() if self._is_collective else self._ps_env()
            self._role_is_generated = True
            if in_static_mode():
                self._gloo_init()


class UserDefinedRoleMaker(PaddleCloudRoleMaker):
    """The role given by the arguments.

    Args:
        is_collective (bool): as for PaddleCloudRoleMaker.
        init_gloo (bool): stored, as in 2.0.2.
        current_id (int): the index of this process in its role.
        role (Role): the role, in jobs with parameter servers.
        worker_num (int): the number of workers; or
        worker_endpoints (list[str]): their endpoints ("host:port").
        server_endpoints (list[str]): the parameter servers' endpoints.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/UserDefinedRoleMaker_en.html

    Examples:
        >>> from paddle.distributed import fleet
        >>> role = fleet.UserDefinedRoleMaker(
        ...     current_id=0, role=fleet.Role.SERVER, worker_num=2,
        ...     server_endpoints=["127.0.0.1:36011", "127.0.0.1:36012"])
        >>> role._is_server(), role._server_num(), role._worker_num()
        (True, 2, 2)
    """

    def __init__(self, is_collective: bool = False, init_gloo: bool = False, **kwargs: Any) -> None:
        super().__init__(is_collective=is_collective, init_gloo=init_gloo, **kwargs)
        self._init_gloo = init_gloo

    def _user_defined_ps_env(self) -> None:
        given = self._kwargs
        self._server_endpoints = given.get("server_endpoints") or []
        self._worker_endpoints = given.get("worker_endpoints", [])
        self._trainers_num = given.get("worker_num", 0)
        if self._trainers_num == 0:
            assert self._worker_endpoints, "UserDefinedRoleMaker needs worker_num or worker_endpoints"
            self._trainers_num = len(self._worker_endpoints)
        self._role, self._current_id = given.get("role"), given.get("current_id", -1)
        if self._role not in (Role.WORKER, Role.SERVER, Role.HETER_WORKER) or not isinstance(self._current_id, int):
            raise ValueError("UserDefinedRoleMaker needs role (a fleet.Role) and current_id (an int)")
        endpoints = self._server_endpoints if self._role == Role.SERVER else self._worker_endpoints
        if 0 <= self._current_id < len(endpoints):
            self._cur_endpoint = endpoints[self._current_id]
        elif self._role == Role.SERVER:
            raise ValueError(f"UserDefinedRoleMaker: there is no server {self._current_id} in {endpoints}")
        self._nodes_num = _hosts(self._worker_endpoints)

    def _user_defined_collective_env(self) -> None:
        self._worker_endpoints = self._kwargs.get("worker_endpoints") or []
        self._current_id = self._kwargs.get("current_id", -1)
        self._trainers_num = len(self._worker_endpoints)
        self._role = Role.WORKER
        self._nodes_num = _hosts(self._worker_endpoints)

    def _generate_role(self) -> None:
        """Reads the arguments, once."""
        if not self._role_is_generated:
            self._user_defined_collective_env() if self._is_collective else self._user_defined_ps_env()
            self._role_is_generated = True
