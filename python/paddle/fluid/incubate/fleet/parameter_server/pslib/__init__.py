"""fleet of 1.x for PSLib: tables, trainers and Programs are described as in 2.0.2 and run by this package's servers.

The servers of Baidu's PSLib are not public; methods that need them raise NotImplementedError.
"""

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


def _only_pslib(what: str) -> NoReturn:
    raise NotImplementedError(
        f"fleet.{what} is for servers of Baidu's PSLib, which are not public; this package's servers do not support it"
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
    """The fleet of a job with PSLib's tables, described by the optimizer's `minimize`.

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
        """Sets the role of this process; when None that of MPI (a trainer and a server on each host)."""
        super().init(MPISymetricRoleMaker() if role_maker is None else role_maker)

    def _set_client_communication_config(self, request_timeout_ms, connect_timeout_ms, max_retry):
        self._client2client = {
            "request_timeout_ms": request_timeout_ms,
            "connect_timeout_ms": connect_timeout_ms,
            "max_retry": max_retry,
        }

    def set_pull_local_thread_num(self, thread_num):
        """Sets the number of threads that pull from local tables."""
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
        """The description, and the servers' endpoints."""
        self._described(what)
        endpoints = self.server_endpoints()
        if not endpoints or not all(":" in e for e in endpoints):
            raise ValueError(f"fleet.{what}: role makers must know the servers' endpoints (ip:port), got {endpoints}")
        return self._opt_info["fleet_desc"], endpoints

    def init_worker(self):
        """Connects to the servers: the Programs of `minimize` then pull from them and push to them in each run.

        Worker 0 sends its parameters to the servers: run the startup Program before.

        Raises:
            ValueError: before `minimize`, or without endpoints of servers.
            RuntimeError: for a parameter without a value.
            NotImplementedError: for an unsupported table.
            TimeoutError: without worker 0.
        """
        desc, endpoints = self._servers("init_worker")
        me, info = self.worker_index(), self._opt_info
        programs = {} if self._connected else {id(program): program for program in self._main_programs}
        for program in programs.values():
            trainer_programs.Trainer(program, info, endpoints, me).change()
        self._connected = True
        # The Programs themselves pull and push, instead of a DownpourSGD worker.
        info["device_worker"] = "Hogwild"
        if self.is_first_worker():
            trainer_programs.init_servers(desc, self._scopes, endpoints, me)
        else:
            trainer_programs.wait_for_servers(endpoints, me)

    def init_server(self, model_dir=None, **kwargs):
        """Before :meth:`run_server`.

        Args:
            model_dir (str, optional): a folder of :meth:`save_persistables`, from which this server is initialized
                instead of by worker 0. A worker with this argument makes all servers load it, as :meth:`load_model`.
            mode (int, optional): as of :meth:`load_model`.
        """
        if model_dir is None:
            return
        if self.is_server():
            self._begin = _local("init_server", model_dir)
        else:
            self.load_model(model_dir, **kwargs)

    def run_server(self):
        """Serves the tables until all workers have called :meth:`stop_worker`.

        Raises:
            ValueError: before `minimize`, or without endpoints of servers.
            NotImplementedError: for an unsupported accessor or rule.
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
        _only_pslib("end_pass")

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
        """As `Executor.train_from_dataset`."""
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
        _only_pslib("start_heter_trainer")

    def stop_worker(self):
        """This worker is complete; servers end when all are."""
        _core.dist.complete_servers()

    # Commands of the first worker to the servers; the others wait, if their role maker has barriers

    def _worker_barrier(self) -> None:
        if type(self._role_maker).barrier_worker is not RoleMakerBase.barrier_worker:
            self._role_maker.barrier_worker()

    def _by_the_first(self, what: str, work: Callable[[Any, list[str]], Any]) -> Any:
        """The result of `work(description, endpoints)` in the first worker; None in others."""
        desc, endpoints = self._servers(what)
        self._worker_barrier()
        try:
            return work(desc, endpoints) if self.is_first_worker() else None
        finally:
            self._worker_barrier()

    def _ask(self, what: str, **command: Any) -> Any:
        return self._by_the_first(what, lambda _, at: table_commands.send_command(at, self.worker_index(), **command))

    def save_inference_model(
        self, executor, dirname, feeded_var_names=None, target_vars=None, main_program=None, export_for_deployment=True
    ):
        """Makes the servers save all tables, as :meth:`save_persistables`; other arguments are not read."""
        self.save_persistables(executor, dirname)

    def print_table_stat(self, table_id):
        """Prints the number of rows of a sparse table, and of those with embedx columns.

        Args:
            table_id (int): its id.
        """
        counts = self._ask("print_table_stat", do="stat", table=table_id)
        if counts is not None:
            rows, whole = (sum(column) for column in zip(*counts, strict=True))
            print(f"tableid: {table_id}, feasign size: {rows}, mf size: {whole}", flush=True)

    def save_persistables(self, executor, dirname, main_program=None, **kwargs):
        """Makes the servers save all tables into a shared folder.

        Args:
            executor, main_program: not read. dirname (str): the folder.
            mode (int, optional): of rows with counts of shows, 0 all; 1 those above base_threshold that have changed by
                delta_threshold; 2 those above base_threshold; 3 all, and a day ends. Default: 0.

        Raises:
            ValueError: before `minimize`, or for a folder of HDFS.
            RuntimeError: when a server fails.
        """
        self.save_model(dirname, **kwargs)

    def save_model_with_whitelist(self, executor, dirname, whitelist_path, main_program=None, **kwargs):
        """Makes the servers save listed rows of a sparse table.

        Args:
            executor, main_program: not read. dirname (str): the folder.
            whitelist_path (str): a file of row ids, separated by white space. mode (int, optional): as of
                :meth:`save_persistables`. table_id (int, optional): the table. Default: 0.
        """
        at, listed = (_local("save_model_with_whitelist", path) for path in (dirname, whitelist_path))
        how = {"mode": kwargs.get("mode", 0), "table": kwargs.get("table_id", 0), "whitelist": listed}
        self._ask("save_model_with_whitelist", do="save", folder=at, **how)

    def save_cache_model(self, executor, dirname, main_program=None, **kwargs):
        """Makes the servers save the rows with the most shows, a fraction sparse_cache_rate of all.

        Args:
            executor, main_program: not read. dirname (str): the folder; they go to ``NNN_cache`` there.
            table_id (int, optional): the table. Default: 0. mode: not read.

        Returns:
            int: the number of rows; -1 in workers other than the first.

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
        """Shrinks sparse tables with counts of shows: counts decay (show_click_decay_rate); rows below
        delete_threshold,
        or without a show for delete_after_unseen_days days (counted by saves with mode 3), are removed."""
        self._ask("shrink_sparse_table", do="shrink")

    def shrink_dense_table(self, decay, emb_dim=11, scope=None, table_id=None):
        """Applies the decay of shows to the sums of `data_norm`: the first of every `emb_dim` is a sum of logarithms.

        Args:
            decay (float): the factor of shows. emb_dim (int): the number of sums of one embedding.
            scope (Scope, optional): the scope of this worker's values. None: the global one.
            table_id (int, optional): the table. None: all dense tables whose parameters the scope has.
        """
        self._give("shrink_dense_table", scope, table_id, lambda values: table_commands.decayed(values, decay, emb_dim))

    def _give(self, what: str, scope: Any, table: int | None, change: Callable[[Any], Any]) -> None:
        """Sends dense tables from the scope of the first worker to the servers, after `change`."""
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
        """Removes all rows of a sparse table.

        Args:
            table_id (int): its id.
        """
        self._ask("clear_one_table", do="clear", table=table_id)

    def clear_model(self):
        """Removes all rows of all sparse tables."""
        self._ask("clear_model", do="clear")

    def load_pslib_whitelist(self, table_id, model_path, **kwargs):
        """Would make PSLib's servers load the rows of a whitelist: raises NotImplementedError."""
        _only_pslib("load_pslib_whitelist")

    def load_one_table(self, table_id, model_path, **kwargs):
        """Makes the servers load a table, or sends them the parameters of a saved model.

        Args:
            table_id (int): its id. model_path (str): a folder of :meth:`save_model` or :meth:`save_one_table`; with
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
        """Makes the servers store their current tables for :meth:`revert`."""
        self._ask("confirm", do="confirm")

    def revert(self):
        """Makes the servers restore the tables of the last :meth:`confirm` (RuntimeError without one)."""
        self._ask("revert", do="revert")

    def load_model(self, model_dir=None, **kwargs):
        """Makes the servers load all tables, saved by any number of servers.

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
            table_id (int): its id. model_dir (str): the folder. mode (int, optional): as there.
            prefix (str, optional): part of the files' names, ``part-PREFIX-000-00000``.
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
        """The trainer's index, the number of trainers and their endpoints, by the environment (dict)."""
        ends, own = os.getenv("PADDLE_TRAINER_ENDPOINTS", ""), os.getenv("PADDLE_CURRENT_ENDPOINT", "")
        known = bool(ends and own)
        return {
            "trainer_id": int(os.getenv("PADDLE_TRAINER_ID", "0")),
            "num_trainers": len(ends.split(",")) if known else 0,
            "current_endpoint": own if known else "",
            "trainer_endpoints": ends if known else "",
        }

    def minimize(self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None):
        """Appends backward, and describes tables, trainers and Programs: ``fleet._opt_info``, `_fleet_opt` of Programs.

        Args:
            losses (Variable|list of Variable): the losses.
            scopes (list of Scope, optional): the scope of each loss's parameters.
            startup_programs, parameter_list, no_grad_set: as of an optimizer.

        Returns:
            list: None, as trainers update nothing, and pairs of parameter and gradient.

        Raises:
            ValueError: for another number of scopes than losses, or unknown settings.
        """
        losses = losses if isinstance(losses, list) else [losses]
        scopes = [global_scope()] * len(losses) if scopes is None else scopes
        if len(scopes) != len(losses):
            raise ValueError(f"minimize: {len(losses)} losses need a scope each, got {len(scopes)}")
        nothing, pairs, opt_info = self._distributed_optimizer._minimize(
            losses, startup_programs, parameter_list, no_grad_set, self._strategy
        )
        opt_info["mpi_rank"], opt_info["mpi_size"] = fleet.worker_index(), fleet.worker_num()
        fleet._set_opt_info(opt_info)
        fleet._main_programs, fleet._scopes = [loss.block.program for loss in losses], scopes
        fleet._connected = False
        return [nothing, pairs]
