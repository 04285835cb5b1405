"""fleet with Downpour's tables: it describes tables, trainers and Programs as 2.0.2 does for Baidu's PSLib, whose
servers are not public, and runs them on the servers that are here. What only PSLib has says so."""
from __future__ import annotations

import os
import warnings
from typing import Any, NoReturn

import paddle._core as _core
import paddle.fluid as fluid
from paddle.fluid.executor import global_scope
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet
from paddle.fluid.incubate.fleet.base.mode import Mode
from paddle.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker

from . import servers, trainers
from .embeddings import fleet_embedding
from .optimizer_factory import FLEET_GLOBAL_DICT as FLEET_GLOBAL_DICT
from .optimizer_factory import DistributedAdam

__all__ = ["PSLib", "fleet", "fleet_embedding", "DownpourOptimizer"]


def _theirs(what: str) -> NoReturn:
    raise NotImplementedError(
        f"fleet.{what} is for servers of Baidu's PSLib, which are not public; those that are here train these tables, "
        "and do no more; fleet.parameter_server.distribute_transpiler saves and loads"
    )


class PSLib(Fleet):
    """A job with servers of PSLib: what minimize of its optimizer describes.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/fluid/incubate (fleet.parameter_server.pslib)

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
        >>> from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet
        >>> paddle.enable_static()
        >>> fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:6174"]))
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        >>> _ = fleet.distributed_optimizer(fluid.optimizer.Adam(0.1)).minimize(loss)
        >>> fleet._opt_info["fleet_desc"].server_param.downpour_server_param.downpour_table_param[0].accessor.fea_dim
        14
    """

    def __init__(self):
        super().__init__(Mode.PSLIB)
        self._opt_info: Any = None
        self._main_programs: list[Any] = []
        self._scopes: list[Any] = []
        self._pull_local_thread_num: int | None = None
        self._client2client: dict[str, int] = {}
        self._connected = False

    def init(self, role_maker=None):
        """Say what this process is: what MPI says when None (a trainer and a server on each host)."""
        super().init(MPISymetricRoleMaker() if role_maker is None else role_maker)

    def _set_client_communication_config(self, request_timeout_ms, connect_timeout_ms, max_retry):
        self._client2client = {
            "request_timeout_ms": request_timeout_ms, "connect_timeout_ms": connect_timeout_ms, "max_retry": max_retry
        }  # fmt: skip

    def set_pull_local_thread_num(self, thread_num):
        """How many threads pull from tables of this process."""
        self._pull_local_thread_num = thread_num

    def _set_opt_info(self, opt_info):
        self._opt_info = opt_info

    def distributed_optimizer(self, optimizer, strategy={}):  # noqa: B006 (2.0.2's signature; it is copied)
        """An optimizer whose `minimize` describes the job.

        Args:
            optimizer (Optimizer): an Adam; another one counts as one, with a warning.
            strategy (dict): see :meth:`DistributedAdam._minimize`.

        Returns:
            DownpourOptimizer
        """
        self._optimizer = DownpourOptimizer(optimizer, dict(strategy))
        return self._optimizer

    def _described(self, what: str) -> None:
        if self._opt_info is None:
            raise ValueError(f"fleet.{what}: call minimize of fleet.distributed_optimizer first")

    def _servers(self, what: str) -> tuple[Any, list[str]]:
        """The description, and where the servers are."""
        self._described(what)
        endpoints = self.server_endpoints()
        if not endpoints or not all(":" in e for e in endpoints):
            raise ValueError(f"fleet.{what}: role makers must know the servers' endpoints (ip:port), got {endpoints}")
        return self._opt_info["fleet_desc"], endpoints

    def init_worker(self):
        """Connect to the servers: from now on the Programs of `minimize` pull from them and push to them when they run.

        Worker 0 gives the servers its parameters, so the startup Program comes before.

        Raises:
            ValueError: before `minimize`, or without endpoints of servers.
            RuntimeError: for a parameter without a value.
            NotImplementedError: for a table that the servers do not have.
            TimeoutError: without worker 0.
        """
        desc, endpoints = self._servers("init_worker")
        me, told = self.worker_index(), self._opt_info
        programs = {} if self._connected else {str(id(program)): program for program in self._main_programs}
        for key, program in programs.items():
            trainers.Trainer(program, told["program_id_to_worker"][key], desc, endpoints, me).change()
        self._connected = True
        # The Programs do themselves what a DownpourSGD worker does beside them.
        told["device_worker"] = "Hogwild"
        if self.is_first_worker():
            trainers.begin(desc, self._scopes, endpoints, me)
        else:
            trainers.wait(endpoints, me)

    def init_server(self, model_dir=None, **kwargs):
        """Before :meth:`run_server`; a folder of PSLib's is refused (NotImplementedError)."""
        if model_dir is not None:
            _theirs("init_server(model_dir)")

    def run_server(self):
        """Serve the tables until all workers have called :meth:`stop_worker`.

        Raises:
            ValueError: before `minimize`, or without endpoints of servers.
            NotImplementedError: for an accessor or a rule that is not there.
        """
        desc, endpoints = self._servers("run_server")
        how = (self._main_programs, endpoints, endpoints[self.server_index()], self.worker_num())
        main, startup = servers.build(desc, *how)
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.run(startup, scope=scope)
        exe.run(main, scope=scope)

    def end_pass(self, scope):
        """Would end a pass at heterogeneous workers: raises NotImplementedError."""
        _theirs("end_pass")

    def train_from_dataset(
        self, executor, program=None, dataset=None, scope=None, thread=0, debug=False, fetch_list=None, fetch_info=None,
        print_period=100, fetch_handler=None,
    ):  # fmt: skip
        """As of the Executor."""
        executor.train_from_dataset(
            program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period, fetch_handler
        )

    def start_heter_trainer(
        self, executor, program=None, scope=None, debug=False, fetch_list=None, fetch_info=None, print_period=100,
        fetch_handler=None,
    ):  # fmt: skip
        """Would begin a heterogeneous worker: raises NotImplementedError."""
        _theirs("start_heter_trainer")

    def stop_worker(self):
        """This worker is complete; servers end when all are."""
        _core.dist.complete_servers()

    def save_inference_model(
        self, executor, dirname, feeded_var_names=None, target_vars=None, main_program=None, export_for_deployment=True
    ):
        """Would have the servers write their tables: raises NotImplementedError."""
        _theirs("save_inference_model")

    def print_table_stat(self, table_id):
        """Would have the servers print how large a table is: raises NotImplementedError."""
        _theirs("print_table_stat")

    def save_persistables(self, executor, dirname, main_program=None, **kwargs):
        """Would have the servers write their tables: raises NotImplementedError."""
        _theirs("save_persistables")

    def save_model_with_whitelist(self, executor, dirname, whitelist_path, main_program=None, **kwargs):
        """Would have the servers write chosen rows: raises NotImplementedError."""
        _theirs("save_model_with_whitelist")

    def save_cache_model(self, executor, dirname, main_program=None, **kwargs):
        """Would have the servers write what is asked for most: raises NotImplementedError."""
        _theirs("save_cache_model")

    def shrink_sparse_table(self):
        """Would drop rows that nobody asks for: raises NotImplementedError."""
        _theirs("shrink_sparse_table")

    def shrink_dense_table(self, decay, emb_dim=11, scope=None, table_id=None):
        """Would multiply sums by `decay`: raises NotImplementedError."""
        _theirs("shrink_dense_table")

    def clear_one_table(self, table_id):
        """Would empty a table: raises NotImplementedError."""
        _theirs("clear_one_table")

    def clear_model(self):
        """Would empty all tables: raises NotImplementedError."""
        _theirs("clear_model")

    def load_pslib_whitelist(self, table_id, model_path, **kwargs):
        """Would have the servers read chosen rows: raises NotImplementedError."""
        _theirs("load_pslib_whitelist")

    def load_one_table(self, table_id, model_path, **kwargs):
        """Would have the servers read a table: raises NotImplementedError."""
        _theirs("load_one_table")

    def confirm(self):
        """Would keep what a pass has changed: raises NotImplementedError."""
        _theirs("confirm")

    def revert(self):
        """Would take back what a pass has changed: raises NotImplementedError."""
        _theirs("revert")

    def load_model(self, model_dir=None, **kwargs):
        """Would have the servers read their tables: raises NotImplementedError."""
        _theirs("load_model")

    def save_model(self, model_dir=None, **kwargs):
        """Would have the servers write their tables: raises NotImplementedError."""
        _theirs("save_model")

    def save_one_table(self, table_id, model_dir, **kwargs):
        """Would have the servers write a table: raises NotImplementedError."""
        _theirs("save_one_table")


fleet = PSLib()


class DownpourOptimizer(DistributedOptimizer):
    """Describes the job of :data:`fleet` for losses of one Program or several.

    Args:
        optimizer (Optimizer): an Adam; another one counts as one, with a warning.
        strategy (dict, optional): see :meth:`DistributedAdam._minimize`.
    """

    def __init__(self, optimizer, strategy=None):
        super().__init__(optimizer, strategy)
        if optimizer.type != "adam":
            warnings.warn(f"PSLib's servers run Adam where {optimizer.type} was given", stacklevel=3)
        self._optimizer_name = "DistributedAdam"
        self._distributed_optimizer = DistributedAdam(optimizer)

    def get_dist_env(self):
        """The trainer's number, how many there are, and their endpoints, by the environment (dict)."""
        ends, own = os.getenv("PADDLE_TRAINER_ENDPOINTS", ""), os.getenv("PADDLE_CURRENT_ENDPOINT", "")
        known = bool(ends and own)
        return {
            "trainer_id": int(os.getenv("PADDLE_TRAINER_ID", "0")),
            "num_trainers": len(ends.split(",")) if known else 0,
            "current_endpoint": own if known else "",
            "trainer_endpoints": ends if known else "",
        }

    def minimize(self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None):
        """Append backward, and describe tables, trainers and Programs: ``fleet._opt_info``, `_fleet_opt` of Programs.

        Args:
            losses (Variable|list of Variable): what becomes smaller.
            scopes (list of Scope, optional): where each loss's parameters are.
            startup_programs, parameter_list, no_grad_set: as of an optimizer.

        Returns:
            list: None, as trainers update nothing, and pairs of parameter and gradient.

        Raises:
            ValueError: for another number of scopes than losses, or settings that there are not.
        """
        losses = losses if isinstance(losses, list) else [losses]
        scopes = [global_scope()] * len(losses) if scopes is None else scopes
        if len(scopes) != len(losses):
            raise ValueError(f"minimize: {len(losses)} losses need a scope each, got {len(scopes)}")
        nothing, pairs, told = self._distributed_optimizer._minimize(
            losses, startup_programs, parameter_list, no_grad_set, self._strategy
        )
        told["mpi_rank"], told["mpi_size"] = fleet.worker_index(), fleet.worker_num()
        fleet._set_opt_info(told)
        fleet._main_programs, fleet._scopes = [loss.block.program for loss in losses], scopes
        fleet._connected = False
        return [nothing, pairs]
