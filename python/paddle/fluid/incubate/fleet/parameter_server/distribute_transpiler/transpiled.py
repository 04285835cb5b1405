"""FleetTranspiler: the fleet of 1.x with parameter servers, by DistributeTranspiler."""

from __future__ import annotations

import copy
from typing import Any

from paddle._programs.scope import global_scope
from paddle.distributed.checkport import wait_server_ready
from paddle.distributed.ps import job_programs
from paddle.distributed.ps.communicator import Communicator
from paddle.distributed.ps.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from paddle.distributed.ps.geo_sgd_transpiler import GeoSgdTranspiler
from paddle.fluid.framework import Program, default_startup_program
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet
from paddle.fluid.incubate.fleet.base.mode import Mode
from paddle.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker
from paddle.fluid.incubate.fleet.parameter_server.mode import PSMode
from paddle.optimizer.base import OptimizerBase
from paddle.static.compiler import CompiledProgram
from paddle.static.executor import Executor
from paddle.static.parallel_executor import ParallelExecutor

from .distributed_strategy import (
    AsyncStrategy,
    DistributedStrategy,
    GeoStrategy,
    HalfAsyncStrategy,
    SyncStrategy,
)

__all__ = ["FleetTranspiler", "ParameterServerOptimizer", "fleet"]


def _strategy_of(config: DistributeTranspilerConfig) -> DistributedStrategy:
    """The strategy of a configuration."""
    strategy: DistributedStrategy
    if config.sync_mode:
        config.sync_mode = False
        strategy = SyncStrategy()
    elif not config.runtime_split_send_recv:
        config.half_async = config.runtime_split_send_recv = True
        strategy = HalfAsyncStrategy()
    elif config.geo_sgd_mode:
        strategy = GeoStrategy(config.geo_sgd_need_push_nums)
    else:
        strategy = HalfAsyncStrategy() if config.half_async else AsyncStrategy()
    strategy.set_program_config(config)
    return strategy


class FleetTranspiler(Fleet):
    """The fleet of a job with trainers and parameter servers.

    Attributes:
        main_program, startup_program (Program): this process's, after :meth:`ParameterServerOptimizer.minimize`.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/fluid/incubate
    (fleet.parameter_server.distribute_transpiler)

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
        >>> from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet
        >>> paddle.enable_static()
        >>> fleet.init(UserDefinedRoleMaker(0, Role.SERVER, 2, ["127.0.0.1:6174"]))
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        >>> sgd = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), StrategyFactory.create_sync_strategy())
        >>> _ = sgd.minimize(loss)
        >>> [op.type for op in fleet.main_program.global_block().ops]
        ['listen_and_serv']
    """

    def __init__(self):
        super().__init__(Mode.TRANSPILER)
        self._inner_mode = PSMode.TRANSPILER
        self._strategy: Any = None
        self._transpiler: Any = None
        self._communicator: Any = None
        self._origin_main_program: Any = None
        self._origin_startup_program: Any = None
        self.startup_program: Any = None
        self.main_program: Any = None

    def init(self, role_maker=None):
        """Sets the role of this process; when None that of MPI (a trainer and a server on each host)."""
        super().init(MPISymetricRoleMaker() if role_maker is None else role_maker)

    def _made(self, program: Any) -> Any:
        if program is None:
            raise ValueError("fleet: call minimize of fleet.distributed_optimizer first")
        return program

    def init_worker(self):
        """Waits for the servers, before the trainer's steps. With GeoStrategy changes are exchanged from here on;
        ``fleet.startup_program`` runs before or after."""
        self._made(self.main_program)
        wait_server_ready(self.server_endpoints())
        if isinstance(self._strategy, GeoStrategy):
            self._communicator = Communicator(self.main_program)
            self._communicator.start()

    def init_server(self, model_dir=None, **kwargs):
        """Initializes a server's parameters and optimizer states.

        Args:
            model_dir (str, optional): a folder of :meth:`save_persistables`, or of ``io.save_persistables`` of one
                process; variables without a file keep their initial values.

        Raises:
            ValueError: before `minimize`, or for a missing folder.
        """
        self._executor.run(self._made(self.startup_program))
        if model_dir:
            endpoint = self.server_endpoints()[self.server_index()]
            job_programs.load(self._transpiler, endpoint, self._executor, model_dir, global_scope())

    def run_server(self):
        """Serves until all trainers are complete."""
        self._executor.run(self._made(self.main_program))

    def stop_worker(self):
        """Sends queued gradients, and reports to the servers that this trainer is complete."""
        if self._communicator is not None:
            self._communicator.stop()
            self._communicator = None
        if isinstance(self._role_maker, MPISymetricRoleMaker):
            self._role_maker._finalize()
        self._executor.close()

    def distributed_optimizer(self, optimizer, strategy=None):
        """An optimizer whose `minimize` rewrites the Programs for trainers and servers.

        Args:
            optimizer (Optimizer): the optimizer of the servers.
            strategy (DistributedStrategy|DistributeTranspilerConfig): the synchronization; None: synchronous, as in
                1.x (2.0.2 raises TypeError).

        Returns:
            ParameterServerOptimizer

        Raises:
            ValueError: before :meth:`init`, or for another type than an optimizer.
            TypeError: for another strategy.
        """
        if not isinstance(optimizer, OptimizerBase):
            raise ValueError(f"an Optimizer is needed, got {type(optimizer)}")
        if not self._is_initialized:
            raise ValueError("fleet: call fleet.init first, which says what this process is")
        if strategy is None:
            strategy = SyncStrategy()
        elif isinstance(strategy, DistributeTranspilerConfig):
            strategy = _strategy_of(strategy)
        elif not isinstance(strategy, DistributedStrategy):
            raise TypeError(f"a DistributedStrategy or DistributeTranspilerConfig is needed, got {type(strategy)}")
        self._strategy = strategy
        self._optimizer = ParameterServerOptimizer(optimizer, strategy)
        return self._optimizer

    def _what_to_save(self, executor: Any, main_program: Any) -> None:
        if isinstance(executor, ParallelExecutor) or not isinstance(executor, Executor):
            raise TypeError(f"fleet saves by an Executor, got {type(executor)}")
        if isinstance(main_program, CompiledProgram):
            raise TypeError("fleet saves a Program, got a CompiledProgram")

    def save_inference_model(
        self, executor, dirname, feeded_var_names, target_vars, main_program=None, export_for_deployment=True
    ):
        """Saves an inference model from `feeded_var_names` to `target_vars`, with the servers' parameters and tables.

        Args:
            executor (Executor): of this trainer.
            dirname (str): the folder.
            feeded_var_names (str|list of str), target_vars (Variable|list of Variable): inputs and outputs.
            main_program (Program, optional): the original one when None.
            export_for_deployment (bool): omit what only training needs.

        Raises:
            TypeError: for another executor or program.
        """
        self._what_to_save(executor, main_program)
        program = self._made(self._origin_main_program) if main_program is None else main_program
        fetched = job_programs.fetch(self._transpiler, executor, max(self.worker_index(), 0))
        job_programs.save_for_inference(
            executor, dirname, feeded_var_names, target_vars, program, fetched, export_for_deployment
        )

    def save_persistables(self, executor, dirname, main_program=None, **kwargs):
        """Saves the servers' parameters, tables and optimizer states, and variables of this trainer only.

        The files are those of ``io.save_persistables`` of one process; :meth:`init_server` reads them.

        Args:
            executor (Executor): this trainer's.
            dirname (str): the folder; it is created.
            main_program (Program, optional): this trainer's when None.

        Raises:
            TypeError: for another executor or program.
        """
        self._what_to_save(executor, main_program)
        program = self._made(self.main_program) if main_program is None else main_program
        fetched = job_programs.fetch(self._transpiler, executor, max(self.worker_index(), 0))
        job_programs.save(executor, dirname, program, fetched)


fleet = FleetTranspiler()


def _plain(strategy: DistributedStrategy) -> DistributeTranspilerConfig:
    """The configuration for send and recv operators without a Communicator."""
    config = copy.copy(strategy.get_program_config())
    config.runtime_split_send_recv = False
    config.sync_mode = config.completely_not_async
    config.half_async = False
    return config


class ParameterServerOptimizer(DistributedOptimizer):
    """Rewrites the Programs for the trainers and servers of :data:`fleet`.

    Args:
        optimizer (Optimizer): the optimizer of the servers.
        strategy (DistributedStrategy): the synchronization. Sends and receives are part of a trainer's step: in
            asynchronous mode servers apply gradients on arrival, and the trainer continues with the received
            parameters. With GeoStrategy trainers update their own parameters, and servers sum the changes.
        mode (int): PSMode.TRANSPILER; PSLIB is not supported.
    """

    def __init__(self, optimizer, strategy, mode=PSMode.TRANSPILER):
        super().__init__(optimizer, strategy)
        if mode != PSMode.TRANSPILER:
            raise NotImplementedError("ParameterServerOptimizer: PSLib is not there yet")
        self._mode = mode
        self._window = 1
        self.type = "downpour"

    def minimize(self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None):
        """Appends backward and updates to the default Programs, and sets ``fleet.main_program`` and
        ``fleet.startup_program``, the Programs of this process.

        A trainer's are the default Programs themselves, rewritten, as in 1.x: one that runs
        ``default_startup_program()`` starts from the servers' values. (2.0.2 rewrites copies.)

        Args:
            losses (Variable): the loss. parameter_list, no_grad_set: as of the optimizer.

        Raises:
            ValueError: for a list of losses.
        """
        if isinstance(losses, list):
            raise ValueError("minimize: one loss is needed, got a list")
        self._optimizer.minimize(losses, startup_programs, parameter_list, no_grad_set)
        main, startup = losses.block.program, startup_programs or default_startup_program()
        fleet._origin_main_program = main.clone(for_test=False)
        fleet._origin_startup_program = startup.clone(for_test=False)
        if fleet.is_worker():
            fleet.main_program, fleet.startup_program = self._programs(main, startup)
        else:
            fleet.main_program, fleet.startup_program = self._programs(main.clone(for_test=False), startup.clone())

    def _programs(self, main: Program, startup: Program) -> tuple[Any, Any]:
        config, geo = _plain(self._strategy), isinstance(self._strategy, GeoStrategy)
        fleet._transpiler = t = (GeoSgdTranspiler if geo else DistributeTranspiler)(config)
        t._set_server_config(self._strategy.get_server_runtime_config())
        t.transpile(
            max(fleet.worker_index(), 0) if fleet.is_worker() else 0,
            program=main,
            startup_program=startup,
            pservers=fleet.server_endpoints(to_string=True),
            trainers=fleet.worker_num(),
            sync_mode=config.sync_mode,
        )
        if fleet.is_worker():
            return t.get_trainer_program(wait_port=False), startup
        return t.get_pserver_programs(fleet.server_endpoints()[fleet.server_index()])
