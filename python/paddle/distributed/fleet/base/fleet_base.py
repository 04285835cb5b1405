"""Fleet: one interface to a job's processes, whatever they are."""
from __future__ import annotations

import copy
import warnings
from typing import Any

from paddle._basics import mode
from paddle.distributed import data_parallel_program
from paddle.distributed.data_parallel import DataParallel
from paddle.distributed.parallel import init_parallel_env, is_initialized
from paddle.static import default_startup_program

from .distributed_strategy import DistributedStrategy
from .role_maker import PaddleCloudRoleMaker, RoleMakerBase
from .strategy_fields import CONFIGS
from .util_factory import UtilBase

__all__ = ["Fleet"]


class Fleet:
    """The job as this process sees it; `paddle.distributed.fleet` has one, whose methods are functions of the package.

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

    def init(self, role_maker: Any = None, is_collective: bool = False, strategy: Any = None) -> None:
        """Says what this process is, and joins the others of a collective job in dygraph mode.

        Args:
            role_maker (RoleMakerBase, optional): what this process is; the environment says it by default.
            is_collective (bool): whether, by default, all processes are workers that talk to each other.
            strategy (DistributedStrategy, optional): how the job trains.

        Raises:
            ValueError: for a role maker that is none, or `is_collective` that is no bool.
        """
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
        self._util._set_role_maker(role_maker)
        self._util._set_strategy(self._user_defined_strategy)
        if mode.in_dygraph_mode() and self._is_collective and self.worker_num() > 1:
            if is_initialized():
                warnings.warn("fleet.init: this process has joined its job before", stacklevel=2)
            else:
                init_parallel_env()

    def _roles(self) -> Any:
        if self._role_maker is None:
            raise RuntimeError("fleet: call fleet.init first, which says what this process is")
        return self._role_maker

    @property
    def util(self) -> UtilBase:
        """Collectives of small values, files dealt to workers."""
        return self._util

    # --------------------------------------------------------------------------------------------------- who

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self._roles()._is_first_worker()

    def worker_index(self) -> int:
        """This process's number among the workers."""
        return self._roles()._worker_index()

    def worker_num(self) -> int:
        """How many workers there are."""
        return self._roles()._worker_num()

    def is_worker(self) -> bool:
        """Whether this is a worker."""
        return self._roles()._is_worker()

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """Where the workers are: a list of "host:port", or with `to_string` one string with commas."""
        endpoints = self._roles()._get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_num(self) -> int:
        """How many parameter servers there are."""
        return len(self._roles()._get_pserver_endpoints())

    def server_index(self) -> int:
        """This process's number among the parameter servers."""
        return self._roles()._server_index()

    def server_endpoints(self, to_string: bool = False) -> list[str] | str:
        """Where the parameter servers are: a list of "host:port", or with `to_string` one string with commas."""
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
        """Takes an optimizer, whose updates fleet makes those of the job.

        Args:
            optimizer (Optimizer): of this process. strategy (DistributedStrategy, optional): instead of `init`'s.

        Returns:
            Fleet: this, with `step`, `clear_grad`, `minimize`, `get_lr`, ... of the optimizer.

        Raises:
            RuntimeError: in a job of several processes, for a part of the strategy that is not there yet.
        """
        self._roles()
        self.user_defined_optimizer = optimizer
        if strategy is not None:
            self._user_defined_strategy = copy.deepcopy(strategy)
        wanted = [name for name in (*CONFIGS, "fp16_allreduce") if getattr(self._user_defined_strategy, name)]
        absent = [name for name in wanted if name != "a_sync"]
        if absent:
            raise RuntimeError(f"fleet: of the strategy {', '.join(absent)} is not there yet")
        return self

    def distributed_model(self, model: Any) -> Any:
        """The layer whose gradients are averaged over the workers while backward computes them (dygraph mode)."""
        assert model is not None
        assert mode.in_dygraph_mode(), "fleet.distributed_model works in dygraph mode only"
        strategy = self._user_defined_strategy
        self.model = DataParallel(
            model, comm_buffer_size=strategy.fuse_grad_size_in_MB,
            last_comm_buffer_size=strategy.last_comm_group_size_MB,
        )  # fmt: skip
        return self.model

    def _optimizer(self) -> Any:
        if self.user_defined_optimizer is None:
            raise RuntimeError("fleet: call fleet.distributed_optimizer first")
        return self.user_defined_optimizer

    def _dygraph_optimizer(self, what: str) -> Any:
        assert mode.in_dygraph_mode(), f"fleet.{what} works in dygraph mode only"
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

        In a collective job the Program averages gradients over the workers, and the startup program gives all of them
        the parameters of worker 0.

        Raises:
            RuntimeError: for a job with parameter servers, which is not there yet.
        """
        optimizer = self._optimizer()
        if self.server_num():
            raise RuntimeError("fleet.minimize: training with parameter servers by fleet is not there yet")
        if mode.in_dygraph_mode() or self.worker_num() == 1:
            return optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        if not is_initialized():
            init_parallel_env()
        startup = startup_program or default_startup_program()
        result = data_parallel_program.minimize(
            optimizer, loss, startup, parameter_list, no_grad_set, ranks=self.worker_num()
        )
        data_parallel_program.share(startup, loss.block.program.all_parameters())
        return result


#: the process's own
fleet = Fleet()
