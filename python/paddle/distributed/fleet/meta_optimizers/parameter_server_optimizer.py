"""ParameterServerOptimizer: the strategy's `a_sync`, of jobs with parameter servers."""
from __future__ import annotations

from typing import Any

from paddle._programs.guards import (
    default_startup_program,
    switch_main_program,
    switch_startup_program,
)

from ..runtime import servers
from .meta_optimizer_base import MetaOptimizerBase

__all__ = ["ParameterServerGraphOptimizer", "ParameterServerOptimizer"]


class ParameterServerOptimizer(MetaOptimizerBase):
    """Workers send gradients to servers, which update the parameters.

    `a_sync` False: all workers take each step together. True with `k_steps` 0: none waits for another; above 0: each
    trains by itself and sends what has changed.
    """

    field = "a_sync"

    def _can_apply(self) -> bool:
        return not self.role_maker._is_collective and self.user_defined_strategy.a_sync_configs["k_steps"] >= 0

    def _disable_strategy(self, dist_strategy: Any) -> None:
        dist_strategy.a_sync = False
        dist_strategy.a_sync_configs = {"k_steps": -1}

    def _enable_strategy(self, dist_strategy: Any, context: Any = None) -> None:
        """`auto` trains asynchronously."""
        if dist_strategy.a_sync_configs["k_steps"] < 0:
            dist_strategy.a_sync = True

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[None, None]:
        """The update of the optimizer inside, and the Programs of this process in the place of the default ones."""
        self.inner_opt.minimize(loss, startup_program, parameter_list, no_grad_set)
        startup_program = startup_program or default_startup_program()
        strategy, role = self.user_defined_strategy, self.role_maker
        config = strategy.a_sync_configs
        push_nums = config["k_steps"] if strategy.a_sync else 0
        made = servers.make(role, loss.block.program, startup_program, not strategy.a_sync, push_nums, config)
        self.programs = made
        worker = role._is_worker()
        main, startup = made.of_worker(config["launch_barrier"]) if worker else made.of_server()
        loss.block.program = main
        switch_main_program(main)
        switch_startup_program(startup)
        self.main_program, self.startup_program = main, startup
        return None, None


class ParameterServerGraphOptimizer(MetaOptimizerBase):
    """Workers of a job with servers run the compiled Program: here every Program is compiled, and nothing is left."""

    def _is_graph_out(self) -> bool:
        return True

    def _can_apply(self) -> bool:
        role = self.role_maker
        return (
            not role._is_collective and self.user_defined_strategy.a_sync_configs["k_steps"] >= 0
            and not role._is_server()
        )  # fmt: skip

    def _disable_strategy(self, dist_strategy: Any) -> None:
        """Nothing of the strategy asks for it."""

    def _enable_strategy(self, dist_strategy: Any, context: Any = None) -> None:
        """It is always on."""

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[None, None]:
        """The Program of `loss` is what is run."""
        return None, None
