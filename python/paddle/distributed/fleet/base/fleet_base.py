"""Fleet: the interface of distributed training, for collective and parameter-server jobs."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

from paddle._basics.mode import in_static_mode
from paddle._programs.guards import switch_main_program
from paddle._programs.runners import assign
from paddle.distributed import mpi, nccl
from paddle.distributed.data_parallel import DataParallel
from paddle.distributed.parallel import init_parallel_env, is_initialized
from paddle.static import CompiledProgram, default_main_program, default_startup_program

from .distributed_strategy import DistributedStrategy
from .meta_optimizer_factory import MetaOptimizerFactory
from .role_maker import PaddleCloudRoleMaker, RoleMakerBase
from .runtime_factory import RuntimeFactory
from .strategy_compiler import StrategyCompiler
from .util_factory import UtilBase

__all__ = ["Fleet"]


def _of_the_job(function: Callable) -> Callable:
    """A method of jobs with servers: a warning in a single process, a ValueError before `minimize`."""

    @functools.wraps(function)
    def step(self: Fleet, *args: Any, **kwargs: Any) -> Any:
        if self._roles()._is_non_distributed():
            warnings.warn(f"fleet.{function.__name__}: the job has a single process, so nothing is done", stacklevel=2)
            return None
        if self._runtime_handle is None:
            raise ValueError(f"fleet.{function.__name__}: call fleet.minimize first, which creates the runtime")
        return function(self, *args, **kwargs)

    return step


class Fleet:
    """A distributed job, as one process sees it. The methods of one instance are functions of the package.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/Fleet_en.html

    Examples:
        >>> import paddle
        >>> from paddle.distributed import fleet
        >>> paddle.disable_static()
        >>> fleet.init(is_collective=True)
        >>> layer = paddle.nn.Linear(4, 1)
        >>> adam = fleet.distributed_optimizer(paddle.optimizer.Adam(parameters=layer.parameters()))
        >>> model = fleet.distributed_model(layer)
        >>> loss = model(paddle.ones([2, 4])).mean()
        >>> loss.backward()
        >>> adam.step()
        >>> adam.clear_grad()
        >>> fleet.worker_num(), fleet.is_first_worker()
        (1, True)
    """

    def __init__(self) -> None:
        self._role_maker: Any = None
        self._is_collective = False
        self._user_defined_strategy = DistributedStrategy()
        self._util = UtilBase()
        self.user_defined_optimizer: Any = None
        self.strategy_compiler = StrategyCompiler()
        self._runtime_handle: Any = None
        self._context: dict[str, Any] = {}

    def init(self, role_maker: Any = None, is_collective: bool = False, strategy: Any = None) -> None:
        """Sets the role of this process, and initializes collective communication in dygraph mode.

        Args:
            role_maker (RoleMakerBase, optional): the role of this process; by default read from the environment.
            is_collective (bool): whether the default role maker is one of a collective job.
            strategy (DistributedStrategy, optional): the settings of the job.

        Raises:
            ValueError: for a `role_maker` or an `is_collective` of another type.
        """
        mpi.begin()
        nccl.begin()
        self._user_defined_strategy = copy.deepcopy(strategy) if strategy is not None else DistributedStrategy()
        if role_maker is None:
            if not isinstance(is_collective, bool):
                raise ValueError(f"fleet.init: is_collective must be a bool, got {type(is_collective)}")
            role_maker = PaddleCloudRoleMaker(is_collective=is_collective)
        elif not isinstance(role_maker, RoleMakerBase):
            raise ValueError(f"fleet.init: role_maker must be a RoleMakerBase, got {type(role_maker)}")
        self._role_maker = role_maker
        self._is_collective = role_maker._is_collective
        role_maker._generate_role()
        self.strategy_compiler = StrategyCompiler()
        self._util._set_role_maker(role_maker)
        self._util._set_strategy(self._user_defined_strategy)
        if not in_static_mode() and self._is_collective and self.worker_num() > 1:
            if is_initialized():
                warnings.warn("fleet.init: collective communication is already initialized", stacklevel=2)
            else:
                init_parallel_env()

    def _roles(self) -> Any:
        if self._role_maker is None:
            raise RuntimeError("fleet: call fleet.init first, which sets the role of this process")
        return self._role_maker

    @property
    def util(self) -> UtilBase:
        """UtilBase: collectives of small values, partition of files."""
        return self._util

    # ------------------------------------------------------------------------------------------------- roles

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self._roles()._is_first_worker()

    def worker_index(self) -> int:
        """The index of this worker."""
        return self._roles()._worker_index()

    def worker_num(self) -> int:
        """The number of workers."""
        return self._roles()._worker_num()

    def is_worker(self) -> bool:
        """Whether this is a worker."""
        return self._roles()._is_worker()

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """The workers' endpoints: a list of "host:port", or with `to_string` a comma-separated string."""
        endpoints = self._roles()._get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_num(self) -> int:
        """The number of parameter servers."""
        return len(self._roles()._get_pserver_endpoints())

    def server_index(self) -> int:
        """The index of this parameter server."""
        return self._roles()._server_index()

    def server_endpoints(self, to_string: bool = False) -> list[str] | str:
        """The parameter servers' endpoints: a list of "host:port", or with `to_string` a comma-separated string."""
        endpoints = self._roles()._get_pserver_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def is_server(self) -> bool:
        """Whether this is a parameter server (or a heterogeneous worker, as in 2.0.2)."""
        return self._roles()._is_server() or self._roles()._is_heter_worker()

    def barrier_worker(self) -> None:
        """Waits for all workers."""
        self._roles()._barrier("worker")

    # ---------------------------------------------------------------------------------------------- training

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> Fleet:
        """Sets the optimizer that fleet makes distributed.

        Args:
            optimizer (Optimizer): of this process. strategy (DistributedStrategy, optional): instead of `init`'s.

        Returns:
            Fleet: this instance, with the optimizer's `step`, `clear_grad`, `minimize`, `get_lr`, ...
        """
        self.user_defined_optimizer = optimizer
        if strategy is not None:
            self._user_defined_strategy = copy.deepcopy(strategy)
        self._context = {}
        return self

    def distributed_model(self, model: Any) -> Any:
        """A DataParallel layer: gradients are averaged over the workers during backward (dygraph mode)."""
        assert model is not None
        assert not in_static_mode(), "fleet.distributed_model works in dygraph mode only"
        strategy = self._user_defined_strategy
        self.model = DataParallel(
            model,
            comm_buffer_size=strategy.fuse_grad_size_in_MB,
            last_comm_buffer_size=strategy.last_comm_group_size_MB,
        )
        return self.model

    def _optimizer(self) -> Any:
        if self.user_defined_optimizer is None:
            raise RuntimeError("fleet: call fleet.distributed_optimizer first")
        return self.user_defined_optimizer

    def _dygraph_optimizer(self, what: str) -> Any:
        assert not in_static_mode(), f"fleet.{what} works in dygraph mode only"
        return self._optimizer()

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state (dygraph mode)."""
        return self._dygraph_optimizer("state_dict").state_dict()

    def set_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Sets the optimizer's state (dygraph mode)."""
        return self._dygraph_optimizer("set_state_dict").set_state_dict(state_dict)

    def set_lr(self, value: float) -> Any:
        """Sets the learning rate (dygraph mode)."""
        return self._dygraph_optimizer("set_lr").set_lr(value)

    def get_lr(self) -> float:
        """The learning rate (dygraph mode)."""
        return self._dygraph_optimizer("get_lr").get_lr()

    def step(self) -> Any:
        """Updates the parameters (dygraph mode)."""
        return self._dygraph_optimizer("step").step()

    def clear_grad(self) -> Any:
        """Clears the gradients (dygraph mode)."""
        return self._dygraph_optimizer("clear_grad").clear_grad()

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> Any:
        """Appends backward and updates to the loss's Program, or runs them (dygraph mode), as the optimizer does.

        In static mode the strategy's meta-optimizers rewrite the Program, each around an inner one; a collective job
        averages gradients when it runs the compiled Program.

        Returns:
            (operators of the update, pairs of parameter and gradient); (None, None) where only the compiled
            Program is distributed.

        Raises:
            NotImplementedError: for unsupported settings of the strategy.
        """
        optimizer = self._optimizer()
        strategy = copy.deepcopy(self._user_defined_strategy)
        if not in_static_mode():
            self._context = {"user_defined_strategy": strategy}
            return optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        program = self.origin_main_program = loss.block.program
        startup_program = startup_program or default_startup_program()
        self.origin_startup_program = startup_program.clone()
        context: dict[str, Any] = {
            "origin_main_program": program,
            "origin_startup_program": startup_program,
            "loss": loss,
            "role_maker": self._roles(),
            "user_defined_strategy": self._user_defined_strategy,
        }
        outer, graph = self._compile_strategy(loss, optimizer, strategy, context)
        self._context = context
        self.valid_strategy._enable_env()
        how = loss, startup_program, parameter_list, no_grad_set
        if self._role_maker._is_non_distributed() and not self._is_collective:
            self._make_runtime(context)
            assign(program, "compiled", CompiledProgram(program).with_data_parallel(loss.name))
            return optimizer.minimize(*how)
        result = (outer or optimizer).minimize(*how)
        context["program_optimize_ops"], context["program_params_grads"] = result[:2]
        context["server_programs"] = getattr(outer, "programs", None)
        if outer is not None and default_main_program() is not loss.block.program:
            switch_main_program(loss.block.program)
        if graph is not None:
            result = graph.minimize(*how)
            context["graph_optimize_ops"], context["graph_optimize_grads"] = result
        self._make_runtime(context)
        self._util._set_strategy(self.valid_strategy)
        return result[:2]

    def _compile_strategy(self, loss: Any, optimizer: Any, strategy: Any, context: dict[str, Any]) -> tuple[Any, Any]:
        """Selects and nests the strategy's meta-optimizers; stores the strategy without what was not applied."""
        candidates = MetaOptimizerFactory()._get_valid_meta_optimizers(optimizer)
        if strategy._is_strict_auto():
            for one in candidates:
                one._enable_strategy(strategy, context)
        for one in candidates:
            one._set_basic_info(loss, self._role_maker, optimizer, strategy)
        applicable = [one for one in candidates if one._can_apply()]
        compiler = self.strategy_compiler
        outer, graph = compiler.generate_optimizer(
            loss,
            self._role_maker,
            optimizer,
            strategy,
            [o for o in applicable if not o._is_graph_out()],
            [o for o in applicable if o._is_graph_out()],
        )
        self.valid_strategy = compiler._get_valid_strategy(strategy, [o for o in candidates if o not in applicable])
        context["valid_strategy"] = copy.deepcopy(self.valid_strategy)
        context["applied_meta_list"] = compiler._get_applied_meta_list()
        context["applied_graph_list"] = compiler._get_applied_graph_list()
        return outer, graph

    def _make_runtime(self, context: dict[str, Any]) -> None:
        if self._runtime_handle is None:
            self._runtime_handle = RuntimeFactory()._create_runtime(context)

    def _of_minimize(self, name: str, nothing: Any) -> Any:
        if name not in self._context:
            warnings.warn(f"fleet: {name} is available after fleet.minimize", stacklevel=3)
        return self._context.get(name, nothing)

    def _final_strategy(self) -> Any:
        """The strategy that `minimize` applied."""
        return self._of_minimize("valid_strategy", {})

    def _get_applied_meta_list(self) -> list[str]:
        """The names of the meta-optimizers that rewrote the Program, the outermost first."""
        return self._of_minimize("applied_meta_list", [])

    def _get_applied_graph_list(self) -> list[str]:
        """The names of the meta-optimizers of the compiled Program."""
        return self._of_minimize("applied_graph_list", [])

    def amp_init(self, place: Any, scope: Any = None, test_program: Any = None, use_fp16_test: bool = False) -> Any:
        """Casts the parameters for pure float16 training; called after the startup program has run.

        Args:
            place (Place): the parameters' place. scope (Scope, optional): the global one when None.
            test_program (Program, optional): rewritten as the Program that trains.
            use_fp16_test (bool): also without pure float16 training.

        Raises:
            AssertionError: without `amp` in the strategy and an optimizer of `decorate`.
        """
        found = [*self.strategy_compiler._get_applied_meta_optimizer(), self.user_defined_optimizer]
        inits = [one.amp_init for one in found if hasattr(one, "amp_init")]
        assert inits, "fleet.amp_init: the strategy has no amp, and the optimizer is not one of static.amp.decorate"
        return inits[0](place, scope, test_program, use_fp16_test)

    # ------------------------------------------------------------------------------- parameter servers

    @_of_the_job
    def init_worker(self) -> None:
        """Initializes a worker of a job with servers, after the startup program has run.

        Raises:
            ValueError: before `minimize`.
        """
        self._runtime_handle._init_worker()

    @_of_the_job
    def init_server(self, *args: Any, **kwargs: Any) -> None:
        """Initializes a server.

        Args:
            args: the folder of an initial model, written by `save_persistables`.

        Raises:
            ValueError: before `minimize`, or for a missing folder.
        """
        self._runtime_handle._init_server(*args, **kwargs)

    @_of_the_job
    def run_server(self) -> None:
        """Serves requests until all workers have stopped."""
        self._runtime_handle._run_server()

    @_of_the_job
    def stop_worker(self) -> None:
        """Reports to the servers that this worker is complete."""
        self._runtime_handle._stop_worker()

    def _runtime(self) -> Any:
        if self._runtime_handle is None:
            raise ValueError("fleet: call fleet.minimize first, which creates the runtime")
        return self._runtime_handle

    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: list[str],
        target_vars: list[Any],
        main_program: Any = None,
        export_for_deployment: bool = True,
        mode: int = 0,
    ) -> None:
        """Saves an inference model, with the servers' parameters.

        Args:
            executor (Executor): of this worker. dirname (str): the folder.
            feeded_var_names (list[str]), target_vars (list[Variable]): inputs and outputs; one or several.
            main_program (Program, optional): that of `minimize`'s loss when None.
            export_for_deployment (bool), mode (int): as of `paddle.fluid.io.save_inference_model`.

        Raises:
            TypeError: for an executor or a Program of another type.
        """
        fed = [feeded_var_names] if isinstance(feeded_var_names, str) else feeded_var_names
        targets = list(target_vars) if isinstance(target_vars, (list, tuple)) else [target_vars]
        self._runtime()._save_inference_model(executor, dirname, fed, targets, main_program, export_for_deployment)

    def save_persistables(self, executor: Any, dirname: str, main_program: Any = None, mode: int = 0) -> None:
        """Saves the servers' parameters and optimizer states.

        Args:
            executor (Executor): of this worker. dirname (str): the folder.
            main_program (Program, optional): that of `minimize`'s loss when None. mode (int): 0.

        Raises:
            TypeError: for an executor or a Program of another type.
        """
        self._runtime()._save_persistables(executor, dirname, main_program)

    def shrink(self, threshold: float) -> None:
        """Removes rows of sparse tables with a score below `threshold`."""
        self._runtime()._shrink(threshold)


#: the instance whose methods are the functions of `paddle.distributed.fleet`
fleet = Fleet()
