"""Collective, CollectiveOptimizer and DistributedStrategy: collective training by 1.x's fleet."""

from __future__ import annotations

import os
import warnings
from typing import Any

from paddle.distributed.ps.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from paddle.fluid import contrib, io
from paddle.fluid.framework import Program, default_startup_program
from paddle.fluid.incubate.checkpoint.checkpoint_saver import CheckpointSaver, PaddleModel
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet, Mode
from paddle.fluid.optimizer import RecomputeOptimizer
from paddle.static.compiler import CompiledProgram
from paddle.static.executor import Executor
from paddle.static.strategies import BuildStrategy, ExecutionStrategy

__all__ = ["Collective", "CollectiveOptimizer", "DistributedStrategy", "fleet"]


class LambConfig:
    """The configuration of Lamb: empty, as in 2.0.2."""


class DistFCConfig:
    """The configuration of a distributed fully connected layer: empty, as in 2.0.2."""


class Collective(Fleet):
    """The fleet of a collective job.

    Attributes:
        main_program: the Program to run after :meth:`CollectiveOptimizer.minimize`: a CompiledProgram, or with
            ``mode="collective"`` a Program.
        startup_program (Program): the startup Program.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/fluid/incubate (fleet.collective)

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
        >>> from paddle.fluid.incubate.fleet.collective import fleet
        >>> paddle.enable_static()
        >>> fleet.init(UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:6170"]))
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        >>> _ = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)
        >>> fleet.worker_num(), type(fleet.main_program).__name__
        (1, 'CompiledProgram')
    """

    def __init__(self):
        super().__init__(Mode.COLLECTIVE)
        self._local_ip = 0
        self.startup_program = None
        self._origin_program: Any = None
        self._transpiled_program: Any = None
        self.main_program: Any = None
        self._checkpoint_prefix = "__paddle_fleet_checkpoint__"
        self._param_file_name = "_paddle_fleet_param__"

    def _for_servers(self, what: str) -> None:
        warnings.warn(f"{what} is for jobs with parameter servers; here it does nothing", stacklevel=3)

    def init_worker(self):
        """Only warns: there are no servers."""
        self._for_servers("init_worker")

    def run_worker(self, main_programs=None, scopes=None):
        """Only warns: there are no servers."""
        self._for_servers("run_worker")

    def init_server(self, model_dir=None):
        """Only warns: there are no servers."""
        self._for_servers("init_server")

    def run_server(self):
        """Only warns: there are no servers."""
        self._for_servers("run_server")

    def stop_worker(self):
        """Only warns: there are no servers."""
        self._for_servers("stop_worker")

    def distributed_optimizer(self, optimizer, strategy=None):
        """An optimizer whose `minimize` rewrites the Programs for the job.

        Args:
            optimizer (Optimizer): of this process.
            strategy (DistributedStrategy, optional): the settings.

        Returns:
            CollectiveOptimizer
        """
        self._optimizer = CollectiveOptimizer(optimizer, strategy)
        return self._optimizer

    def _what_to_save(self, executor: Any, main_program: Any) -> Any:
        if not isinstance(executor, Executor):
            raise AssertionError(f"fleet saves by an Executor, got {type(executor)}")
        program = self._origin_program if main_program is None else main_program
        if not isinstance(program, Program):
            raise AssertionError(f"fleet saves a Program, got {type(program)}")
        return program

    def save_inference_model(
        self, executor, dirname, feeded_var_names=None, target_vars=None, main_program=None, export_for_deployment=True
    ):
        """Saves an inference model from `feeded_var_names` to `target_vars`, of the original Program.

        Args:
            executor (Executor): it runs the saving.
            dirname (str): the folder.
            feeded_var_names (list of str), target_vars (list of Variable): inputs and outputs.
            main_program (Program, optional): another one.
            export_for_deployment (bool): omit what only training needs.
        """
        program = self._what_to_save(executor, main_program)
        io.save_inference_model(
            dirname, feeded_var_names, target_vars, executor, program, None, None, export_for_deployment
        )

    def save_persistables(self, executor, dirname, main_program=None, filename=None):
        """Saves the persistable variables of the original Program.

        Args:
            executor (Executor): it runs the saving.
            dirname (str): the folder.
            main_program (Program, optional): another one.
            filename (str, optional): one file for all; one each when None.
        """
        io.save_persistables(executor, dirname, self._what_to_save(executor, main_program), filename=filename)

    def save_checkpoint(
        self,
        executor,
        path,
        trainer_id,
        train_status,
        fs,
        main_program=None,
        local_cache_path=".cache",
        remain_all_checkpoint=True,
    ):
        """Writes the next checkpoint of a folder: the persistable variables, and the training status.

        Args:
            executor (Executor): reads the variables. path (str): the folder. trainer_id (int): the writing trainer.
            train_status (SerializableBase): the training status. fs (FS): the file system.
            main_program (Program, optional): default: the fleet's.
            local_cache_path (str): a local folder for temporary files.
            remain_all_checkpoint (bool): keep earlier checkpoints.

        Returns:
            (path of the checkpoint, its number).
        """
        saver, what = CheckpointSaver(fs), self._in_checkpoint(executor, main_program, train_status)
        made = saver.save_checkpoint(path, what, trainer_id, local_cache_path)
        if not remain_all_checkpoint:
            saver.clean_redundant_checkpoints(path)
        return made

    def load_checkpoint(
        self,
        executor,
        path,
        trainer_id,
        train_status,
        fs,
        main_program=None,
        local_cache_path=".cache",
        ignore_empty=True,
    ):
        """Reads the last checkpoint of a folder; arguments are those of :meth:`save_checkpoint`.

        Raises:
            AssertionError: without a checkpoint, unless `ignore_empty`.
        """
        what = self._in_checkpoint(executor, main_program, train_status)
        return CheckpointSaver(fs).load_checkpoint(path, what, trainer_id, local_cache_path, ignore_empty=ignore_empty)

    def _in_checkpoint(self, executor: Any, main_program: Any, train_status: Any) -> list[Any]:
        program = self._transpiled_program if main_program is None else main_program
        return [PaddleModel(executor, program), train_status]


fleet = Collective()


class DistributedStrategy(BuildStrategy):
    """The settings of collective training: the options of a BuildStrategy, and these.

    Attributes:
        use_local_sgd (bool): local SGD: parameters are averaged after each local step.
        mode (str): "nccl2" (the CompiledProgram averages gradients) or "collective" (operators of the Program do).
        collective_mode (str, optional): with "collective": "grad_allreduce" or "local_sgd".
        nccl_comm_num (int): the number of rings. use_hierarchical_allreduce (bool): first within hosts.
        forward_recompute (bool), recompute_checkpoints (list): recompute activations between these in backward.
        use_amp (bool), amp_loss_scaling (float): mixed precision.
        exec_strategy (ExecutionStrategy): of the CompiledProgram.

    Examples:
        >>> from paddle.fluid.incubate.fleet.collective import DistributedStrategy
        >>> strategy = DistributedStrategy()
        >>> strategy.use_local_sgd = True
        >>> strategy
        DistributedStrategy(use_local_sgd=True)
    """

    exec_strategy: Any
    _defaults = {
        **BuildStrategy._defaults,
        "use_local_sgd": False,
        "use_dist_fc": False,
        "dist_fc_config": None,
        "mode": "nccl2",
        "collective_mode": None,
        "forward_recompute": False,
        "recompute_checkpoints": [],
        "use_amp": False,
        "amp_loss_scaling": 2.0**15,
        "exec_strategy": None,
        "_ut4grad_allreduce": False,
    }

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "exec_strategy", ExecutionStrategy())

    def __setattr__(self, name: str, value: Any) -> None:
        # As in 2.0.2, where this is a Python class: scripts set unknown options.
        if name in self._defaults:
            super().__setattr__(name, value)
        else:
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kept, shown = self.exec_strategy, object.__setattr__
        shown(self, "exec_strategy", None)
        try:
            return super().__repr__()
        finally:
            shown(self, "exec_strategy", kept)


class CollectiveOpBasedOptimizer(DistributedOptimizer):
    """The base of optimizers with a DistributedStrategy.

    Raises:
        AssertionError: for another strategy.
    """

    def __init__(self, optimizer, strategy=None):
        if not isinstance(strategy, DistributedStrategy):
            raise AssertionError(f"strategy must be a DistributedStrategy, got {type(strategy)}")
        super().__init__(optimizer, strategy)

    def backward(self, loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None):
        """As of the optimizer."""
        return self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads):
        """As of the optimizer."""
        return self._optimizer.apply_gradients(params_grads)


class CollectiveOptimizer(CollectiveOpBasedOptimizer):
    """Rewrites the Programs for all workers of :data:`fleet`.

    Args:
        optimizer (Optimizer): of this process.
        strategy (DistributedStrategy, optional): the settings.

    Raises:
        TypeError: for another type than an optimizer. ValueError: for `recompute_checkpoints` that are not a list.
    """

    def __init__(self, optimizer, strategy=None):
        strategy = DistributedStrategy() if strategy is None else strategy
        super().__init__(optimizer, strategy)
        if not isinstance(strategy.recompute_checkpoints, list):
            raise ValueError(f"recompute_checkpoints must be a list, got {strategy.recompute_checkpoints!r}")
        self._forward_recompute = strategy.forward_recompute
        self._recompute_checkpoints = strategy.recompute_checkpoints
        self._use_amp = strategy.use_amp
        self._amp_loss_scaling = strategy.amp_loss_scaling
        self.print_config = False

    def _say(self, *what: Any) -> None:
        if self.print_config:
            print(*what)

    def _check_condition(self, name, **kwargs):
        """Raises for options that conflict with the option `name`."""
        for other, given in kwargs.items():
            if given is True:
                raise AssertionError(f"{name} and {other} do not go together")

    def _check_collective_mode(self, main_program, optimizer, strategy):
        """Sets the strategy's mode from its options; raises for contradictions."""
        others = {"use_dgc": main_program._enable_dgc, "use_lamb": main_program._use_lamb}
        if strategy.use_local_sgd:
            strategy.mode, strategy.collective_mode = "collective", "local_sgd"
            self._check_condition("use_local_sgd", use_dist_fc=strategy.use_dist_fc, **others)
        if strategy.use_dist_fc:
            self._check_condition("use_dist_fc", use_local_sgd=strategy.use_local_sgd, **others)
            if strategy.dist_fc_config is None:
                raise AssertionError("use_dist_fc needs DistributedStrategy.dist_fc_config")
        if strategy._ut4grad_allreduce:
            strategy.mode, strategy.collective_mode = "collective", "grad_allreduce"
            self._check_condition("_ut4grad_allreduce", **others)
        by_operators = strategy.collective_mode in ("local_sgd", "grad_allreduce")
        if by_operators and strategy.mode != "collective":
            raise AssertionError(f"collective_mode={strategy.collective_mode!r} needs mode='collective'")

    def _transpile(self, startup_program, main_program):
        """Rewrites both Programs for all workers, by DistributeTranspiler."""
        endpoints, index, strategy = fleet.worker_endpoints(), fleet.worker_index(), self._strategy
        self._say("worker_endpoints:", endpoints, "trainers_num:", fleet.worker_num(), "trainer_id:", index)
        config = DistributeTranspilerConfig()
        for name in (
            "mode",
            "collective_mode",
            "nccl_comm_num",
            "use_hierarchical_allreduce",
            "hierarchical_allreduce_inter_nranks",
        ):
            setattr(config, name, getattr(strategy, name))
        DistributeTranspiler(config=config).transpile(
            trainer_id=index,
            trainers=",".join(endpoints),
            startup_program=startup_program,
            program=main_program,
            current_endpoint=endpoints[index],
        )

    def _get_node_ips_from_endpoints(self, endpoints):
        """The distinct hosts."""
        return list(dict.fromkeys(endpoint.split(":")[0].strip() for endpoint in endpoints))

    def _node_num(self):
        return len(self._get_node_ips_from_endpoints(fleet.worker_endpoints()))

    def _give_up(self, why: str, **options: Any) -> None:
        """Sets options to supported values, with a warning for each change."""
        for name, value in options.items():
            if getattr(self._strategy, name) != value:
                warnings.warn(f"DistributedStrategy.{name} becomes {value}: {why}", stacklevel=4)
                setattr(self._strategy, name, value)

    def _try_to_compile(self, startup_program, main_program):
        """Rewrites the Programs for all workers, and compiles the main one, except in the mode "collective".

        Args:
            startup_program, main_program (Program): changed in place.

        Returns:
            CompiledProgram|Program: the Program to run.
        """
        nodes, strategy = self._node_num(), self._strategy
        if nodes < 1:
            raise AssertionError("the role maker names no worker")
        if nodes == 1:
            self._give_up("all workers are on one host", nccl_comm_num=1, use_hierarchical_allreduce=False)
        how = strategy.exec_strategy
        if os.getenv("FLAGS_sync_nccl_allreduce", "1") == "1":
            how.num_threads = (2 if strategy.use_hierarchical_allreduce else 1) * strategy.nccl_comm_num + 1
        if strategy.sync_batch_norm is True:
            self._give_up("sync_batch_norm uses one ring", nccl_comm_num=1, use_hierarchical_allreduce=False)
            how.num_threads = 1
        self._say("node_num:", nodes, "num_threads:", how.num_threads, "strategy:", strategy)
        self._transpile(startup_program, main_program)
        if strategy.mode == "collective":
            return main_program
        strategy.num_trainers, strategy.trainer_id = fleet.worker_num(), fleet.worker_index()
        strategy.trainers_endpoints = fleet.worker_endpoints()
        strategy.enable_backward_optimizer_op_deps = True
        self._compiled_program = CompiledProgram(main_program)
        self._compiled_program.with_data_parallel(
            loss_name=self._loss.name, build_strategy=strategy, exec_strategy=how, share_vars_from=None
        )
        return self._compiled_program

    def raiseOptimizeError(self, strategy_name, optimize_name):
        """Raises ValueError: an option of the strategy repeats the kind of the optimizer."""
        raise ValueError(f"DistributedStrategy.{strategy_name} makes what {optimize_name} is already")

    def minimize(self, loss, startup_program=None, parameter_list=None, no_grad_set=None):
        """Appends backward and updates, and rewrites the Programs for all workers: run ``fleet.main_program``.

        Args:
            loss (Variable): the loss.
            startup_program (Program, optional): the default one when None.
            parameter_list (list), no_grad_set (set): as of the optimizer.

        Returns:
            tuple: the operators of the update, pairs of parameter and gradient.

        Raises:
            ValueError: an option of the strategy conflicts with the optimizer.
            AssertionError: options of the strategy conflict.
        """
        kind = type(self._optimizer).__name__
        if self._forward_recompute:
            if not self._recompute_checkpoints:
                raise ValueError("DistributedStrategy.forward_recompute needs recompute_checkpoints")
            if kind in ("RecomputeOptimizer", "OptimizerWithMixedPrecision"):
                self.raiseOptimizeError("forward_recompute", kind)
            self._optimizer = RecomputeOptimizer(self._optimizer)
            self._optimizer._set_checkpoints(self._recompute_checkpoints)
        if self._use_amp:
            if kind in ("OptimizerWithMixedPrecision", "DGCMomentumOptimizer"):
                self.raiseOptimizeError("mixed_precision", kind)
            self._optimizer = contrib.mixed_precision.decorate(
                self._optimizer, init_loss_scaling=self._amp_loss_scaling, use_dynamic_loss_scaling=True
            )
        main_program = loss.block.program
        fleet.startup_program = default_startup_program() if startup_program is None else startup_program
        self._loss = loss
        self._check_collective_mode(main_program, self._optimizer, self._strategy)
        result = self._optimizer.minimize(loss, fleet.startup_program, parameter_list, no_grad_set=no_grad_set)
        fleet._origin_program = main_program.clone(for_test=False)
        fleet._transpiled_program = main_program
        fleet.main_program = self._try_to_compile(fleet.startup_program, main_program)
        return result
