"""fleet with Downpour's tables: it describes tables, trainers and Programs as 2.0.2 does for Baidu's PSLib, whose
servers are not public, and runs them on the servers that are here. What only PSLib has says so."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

import paddle._core as _core
import paddle.fluid as fluid
from paddle._programs.scope import global_scope
from paddle.distributed.port_files import remove_stale_port_files
from paddle.distributed.ps.pslib import server_programs, table_commands, trainer_programs
from paddle.distributed.ps.pslib.optimizer_factory import FLEET_GLOBAL_DICT as FLEET_GLOBAL_DICT
from paddle.distributed.ps.pslib.optimizer_factory import DistributedAdam
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet
from paddle.fluid.incubate.fleet.base.mode import Mode
from paddle.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker, RoleMakerBase

from .embeddings import fleet_embedding

__all__ = ["PSLib", "fleet", "fleet_embedding", "DownpourOptimizer"]


def _theirs(what: str) -> NoReturn:
    raise NotImplementedError(
        f"fleet.{what} is for servers of Baidu's PSLib, which are not public; those that are here do not have it"
    )


def _local(what: str, path: Any) -> str:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"fleet.{what} takes a path, got {path!r}")
    text = os.fspath(path)
    if text.startswith(("hdfs:", "afs:")):
        raise ValueError(
            f"fleet.{what}: {text}: the servers write and read folders of their hosts; "
            "paddle.distributed.fleet.utils.HDFSClient copies them"
        )
    return os.path.abspath(text)


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
        self._begin: str | None = None

    def init(self, role_maker=None):
        """Say what this process is: what MPI says when None (a trainer and a server on each host)."""
        super().init(MPISymetricRoleMaker() if role_maker is None else role_maker)

    def _set_client_communication_config(self, request_timeout_ms, connect_timeout_ms, max_retry):
        self._client2client = {
            "request_timeout_ms": request_timeout_ms,
            "connect_timeout_ms": connect_timeout_ms,
            "max_retry": max_retry,
        }

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
        programs = {} if self._connected else {id(program): program for program in self._main_programs}
        for program in programs.values():
            trainer_programs.Trainer(program, told, endpoints, me).change()
        self._connected = True
        # The Programs do themselves what a DownpourSGD worker does beside them.
        told["device_worker"] = "Hogwild"
        if self.is_first_worker():
            trainer_programs.init_servers(desc, self._scopes, endpoints, me)
        else:
            trainer_programs.wait_for_servers(endpoints, me)

    def init_server(self, model_dir=None, **kwargs):
        """Before :meth:`run_server`.

        Args:
            model_dir (str, optional): a folder of :meth:`save_persistables`, which this server begins with; parameters
                of worker 0 do not count then. A worker that says so has all servers load it, as :meth:`load_model`.
            mode (int, optional): as of :meth:`load_model`.
        """
        if model_dir is None:
            return
        if self.is_server():
            self._begin = _local("init_server", model_dir)
        else:
            self.load_model(model_dir, **kwargs)

    def run_server(self):
        """Serve the tables until all workers have called :meth:`stop_worker`.

        Raises:
            ValueError: before `minimize`, or without endpoints of servers.
            NotImplementedError: for an accessor or a rule that is not there.
        """
        desc, endpoints = self._servers("run_server")
        remove_stale_port_files()
        exe, scope, me = fluid.Executor(fluid.CPUPlace()), fluid.Scope(), self.server_index()
        keeper = functools.partial(table_commands.TableCommands, scope=scope, me=me, servers=len(endpoints))
        how = (endpoints, endpoints[me], self.worker_num(), self._begin is not None, keeper)
        main, startup, kept = server_programs.build(desc, self._main_programs, *how)
        exe.run(startup, scope=scope)
        if self._begin is not None:
            kept.load(self._begin)
        exe.run(main, scope=scope)

    def end_pass(self, scope):
        """Would end a pass at heterogeneous workers: raises NotImplementedError."""
        _theirs("end_pass")

    def train_from_dataset(
        self,
        executor,
        program=None,
        dataset=None,
        scope=None,
        thread=0,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        """As of the Executor."""
        executor.train_from_dataset(
            program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period, fetch_handler
        )

    def start_heter_trainer(
        self,
        executor,
        program=None,
        scope=None,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        """Would begin a heterogeneous worker: raises NotImplementedError."""
        _theirs("start_heter_trainer")

    def stop_worker(self):
        """This worker is complete; servers end when all are."""
        _core.dist.complete_servers()

    # What the first worker has the servers do, while the others wait where their role maker can

    def _meet(self) -> None:
        if type(self._role_maker).barrier_worker is not RoleMakerBase.barrier_worker:
            self._role_maker.barrier_worker()

    def _by_the_first(self, what: str, work: Callable[[Any, list[str]], Any]) -> Any:
        """What `work` returns in the first worker, from the description and the servers' places; else None."""
        desc, endpoints = self._servers(what)
        self._meet()
        try:
            return work(desc, endpoints) if self.is_first_worker() else None
        finally:
            self._meet()

    def _ask(self, what: str, **command: Any) -> Any:
        return self._by_the_first(what, lambda _, at: table_commands.send_command(at, self.worker_index(), **command))

    def save_inference_model(
        self, executor, dirname, feeded_var_names=None, target_vars=None, main_program=None, export_for_deployment=True
    ):
        """Have the servers write all tables, as :meth:`save_persistables`; other arguments are not read."""
        self.save_persistables(executor, dirname)

    def print_table_stat(self, table_id):
        """Print how many rows a sparse table has, and how many of them have all their columns.

        Args:
            table_id (int): its number.
        """
        told = self._ask("print_table_stat", do="stat", table=table_id)
        if told is not None:
            rows, whole = (sum(column) for column in zip(*told, strict=True))
            print(f"tableid: {table_id}, feasign size: {rows}, mf size: {whole}", flush=True)

    def save_persistables(self, executor, dirname, main_program=None, **kwargs):
        """Have the servers write all tables into a folder that all of them reach.

        Args:
            executor, main_program: not read. dirname (str): the folder.
            mode (int, optional): of rows that count shows, 0 all; 1 those that are worth it (base_threshold) and have
                changed since (delta_threshold); 2 those that are worth it; 3 all, and a day ends. Default: 0.

        Raises:
            ValueError: before `minimize`, or for a folder of HDFS.
            RuntimeError: where a server cannot.
        """
        self.save_model(dirname, **kwargs)

    def save_model_with_whitelist(self, executor, dirname, whitelist_path, main_program=None, **kwargs):
        """Have the servers write chosen rows of a sparse table.

        Args:
            executor, main_program: not read. dirname (str): the folder.
            whitelist_path (str): a file of row numbers, with white space between. mode (int, optional): as of
                :meth:`save_persistables`. table_id (int, optional): the table. Default: 0.
        """
        at, listed = (_local("save_model_with_whitelist", path) for path in (dirname, whitelist_path))
        how = {"mode": kwargs.get("mode", 0), "table": kwargs.get("table_id", 0), "whitelist": listed}
        self._ask("save_model_with_whitelist", do="save", folder=at, **how)

    def save_cache_model(self, executor, dirname, main_program=None, **kwargs):
        """Have the servers write the rows that are shown most, a part sparse_cache_rate of all.

        Args:
            executor, main_program: not read. dirname (str): the folder; they go to ``NNN_cache`` there.
            table_id (int, optional): the table. Default: 0. mode: not read.

        Returns:
            int: how many rows they are; -1 in workers other than the first.

        Raises:
            ValueError: for a table without counts of shows.
        """
        at, number = _local("save_cache_model", dirname), kwargs.get("table_id", 0)

        def work(desc: Any, ends: list[str]) -> int:
            tables = desc.server_param.downpour_server_param.downpour_table_param
            table = next((t for t in tables if t.table_id == number), None)
            if table is None or table.accessor.accessor_class not in server_programs.CLICKS:
                raise ValueError(f"fleet.save_cache_model: table {number} is no sparse table with counts of shows")
            return table_commands.save_cache(ends, self.worker_index(), number, at, table.sparse_table_cache_rate)

        saved = self._by_the_first("save_cache_model", work)
        return -1 if saved is None else saved

    def shrink_sparse_table(self):
        """End a day of the sparse tables that count shows: counts decay (show_click_decay_rate), and rows go that are
        worth less than delete_threshold or have not been seen for delete_after_unseen_days days (saving with mode 3
        counts them)."""
        self._ask("shrink_sparse_table", do="shrink")

    def shrink_dense_table(self, decay, emb_dim=11, scope=None, table_id=None):
        """Take shows out of the sums of `data_norm`: the first of every `emb_dim` of them is a sum of logarithms.

        Args:
            decay (float): by what shows are multiplied. emb_dim (int): how many sums belong to one embedding.
            scope (Scope, optional): where this worker's values are. None: the global one.
            table_id (int, optional): the table. None: all dense tables whose parameters the scope has.
        """
        self._give("shrink_dense_table", scope, table_id, lambda values: table_commands.decayed(values, decay, emb_dim))

    def _give(self, what: str, scope: Any, table: int | None, change: Callable[[Any], Any]) -> None:
        """Servers get dense tables from the scope of the first worker, changed."""
        scope = global_scope() if scope is None else scope

        def work(desc: Any, ends: list[str]) -> None:
            for number, names in server_programs.dense_tables(desc).items():
                there = [scope.find_var(name) for name in names]
                if table not in (None, number) or any(v is None for v in there):
                    continue
                held = {name: np.array(v.get_tensor()) for name, v in zip(names, there, strict=True)}
                for name, value in change(held).items():
                    scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())
                trainer_programs.send_parameters(desc, [scope], ends, self.worker_index(), names)

        self._by_the_first(what, work)

    def clear_one_table(self, table_id):
        """A sparse table has no rows any more.

        Args:
            table_id (int): its number.
        """
        self._ask("clear_one_table", do="clear", table=table_id)

    def clear_model(self):
        """All sparse tables have no rows any more."""
        self._ask("clear_model", do="clear")

    def load_pslib_whitelist(self, table_id, model_path, **kwargs):
        """Would have PSLib's servers read the rows of their own list: raises NotImplementedError."""
        _theirs("load_pslib_whitelist")

    def load_one_table(self, table_id, model_path, **kwargs):
        """Have the servers read a table; or give them the parameters of a saved model.

        Args:
            table_id (int): its number. model_path (str): a folder of :meth:`save_model` or :meth:`save_one_table`; with
                the two arguments that follow a folder of ``fluid.io.save_vars``, or its one file.
            scope (Scope, optional), model_proto_file (str, optional): where the parameters go in this worker, and the
                file of the saved Program. var_names (list of str, optional): which ones. None: all of the table.
            load_combine (bool, optional): whether `model_path` is one file.
            mode (int, optional): as of :meth:`load_model`.
        """
        at, scope = _local("load_one_table", model_path), kwargs.get("scope")
        proto = kwargs.get("model_proto_file")
        if scope is None or proto is None:
            self._ask("load_one_table", do="load", folder=at, table=table_id, mode=kwargs.get("mode", 0))
            return
        with open(_local("load_one_table", proto), "rb") as f:
            saved = fluid.Program.parse_from_string(f.read())
        given, one_file = kwargs.get("var_names"), kwargs.get("load_combine", False)
        self._give(
            "load_one_table",
            scope,
            table_id,
            lambda held: trainer_programs.from_model(held, saved, at, held if given is None else given, one_file),
        )

    def confirm(self):
        """The servers keep what their tables hold now, for :meth:`revert`."""
        self._ask("confirm", do="confirm")

    def revert(self):
        """The servers' tables are again as they were at the last :meth:`confirm` (RuntimeError without one)."""
        self._ask("revert", do="revert")

    def load_model(self, model_dir=None, **kwargs):
        """Have the servers read all tables; how many there were when these were saved does not matter.

        Args:
            model_dir (str): a folder of :meth:`save_model`. mode (int, optional): which mode wrote it.
        """
        self._ask("load_model", do="load", folder=_local("load_model", model_dir), mode=kwargs.get("mode", 0))

    def save_model(self, model_dir=None, **kwargs):
        """As :meth:`save_persistables`.

        Args:
            model_dir (str): the folder. mode (int, optional): as there.
        """
        self._ask("save_model", do="save", folder=_local("save_model", model_dir), mode=kwargs.get("mode", 0))

    def save_one_table(self, table_id, model_dir, **kwargs):
        """As :meth:`save_model`, of one table.

        Args:
            table_id (int): its number. model_dir (str): the folder. mode (int, optional): as there.
            prefix (str, optional): what stands in the parts' names, ``part-PREFIX-000-00000``.
        """
        how = {"mode": kwargs.get("mode", 0), "prefix": kwargs.get("prefix") or ""}
        self._ask("save_one_table", do="save", folder=_local("save_one_table", model_dir), table=table_id, **how)


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
