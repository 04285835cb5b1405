"""The strategy `a_sync`: training with parameter servers."""

from __future__ import annotations

import math
import os
from typing import Any

from paddle._basics.dtypes import VarType, to_numpy_dtype
from paddle._programs.guards import (
    default_startup_program,
    switch_main_program,
    switch_startup_program,
)
from paddle.distributed.ps.job_programs import ServerPrograms

from ..base.strategy_registry import Configs, Flag, register
from .meta_optimizer_base import MetaOptimizerBase

__all__ = ["ParameterServerGraphOptimizer", "ParameterServerOptimizer"]

#: for `auto`: steps between exchanges of GEO-SGD; samples of a batch and copies of a parameter in the memory estimate
_GEO_STEPS, _SAMPLES, _COPIES = 800, 1024, 5


def _memory(program: Any) -> int:
    """An estimate of the bytes that a GEO-SGD worker needs: copies of the parameters and a batch's variables."""
    block, total = program.global_block(), 0
    made = {name for op in block.ops for name in op.output_arg_names}
    for name, var in block.vars.items():
        if var.type == VarType.LOD_TENSOR and (var.persistable or name in made):
            sizes = [_SAMPLES if size < 0 else size for size in var.shape]
            count = math.prod(sizes) * to_numpy_dtype(var.dtype).itemsize
            total += count * (_COPIES if var.persistable else 1)
    return total


def _is_sparse(program: Any) -> bool:
    """Whether an embedding has sparse gradients (SelectedRows)."""
    kinds = "lookup_table", "lookup_table_v2"
    return any(op.type in kinds and op.attr("is_sparse") for op in program.global_block().ops)


def _free_memory() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@register
class ParameterServerOptimizer(MetaOptimizerBase):
    """Workers send gradients to servers, which update the parameters.

    `a_sync` False: synchronous steps. True with `k_steps` 0: asynchronous; above 0: GEO-SGD, which exchanges changes of
    parameters every `k_steps` steps.
    """

    flag = Flag(
        "a_sync",
        12,
        "bool: whether trainers of a parameter server continue without waiting for each other. True by default.\n\n"
        '        Setting it sets `a_sync_configs["k_steps"]` to 0. ValueError for another type.',
        default=True,
        error=ValueError,
        resets={"k_steps": 0},
    )
    configs = Configs(
        "AsyncConfig",
        107,
        "Settings of asynchronous training; `k_steps` above 0 means geo.",
        k_steps=-1,
        max_merge_var_num=1,
        send_queue_size=16,
        independent_recv_thread=False,
        min_send_grad_num_before_recv=1,
        thread_pool_size=1,
        send_wait_times=1,
        runtime_split_send_recv=False,
        launch_barrier=True,
        heter_worker_device_guard="cpu",
        lr_decay_steps=10,
    )

    def _can_apply(self) -> bool:
        return not self.role_maker._is_collective and self.user_defined_strategy.a_sync_configs["k_steps"] >= 0

    def _disable_strategy(self, dist_strategy: Any) -> None:
        dist_strategy.a_sync = False
        dist_strategy.a_sync_configs = {"k_steps": -1}

    def _enable_strategy(self, dist_strategy: Any, context: Any = None) -> None:
        """`auto` selects asynchronous training; GEO-SGD where SGD updates sparse rows and the model fits in memory."""
        if dist_strategy.a_sync_configs["k_steps"] < 0:
            dist_strategy.a_sync = True
            program = context["origin_main_program"]
            by_rows = getattr(self.inner_opt, "type", "") == "sgd" and _is_sparse(program)
            if by_rows and _memory(program) < _free_memory():
                dist_strategy.a_sync_configs = {"k_steps": _GEO_STEPS}

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[None, None]:
        """The inner optimizer's update; this process's Programs become the default ones."""
        self.inner_opt.minimize(loss, startup_program, parameter_list, no_grad_set)
        startup_program = startup_program or default_startup_program()
        strategy, role = self.user_defined_strategy, self.role_maker
        config = strategy.a_sync_configs
        push_nums = config["k_steps"] if strategy.a_sync else 0
        made = ServerPrograms(role, loss.block.program, startup_program, not strategy.a_sync, push_nums, config)
        self.programs = made
        worker = role._is_worker()
        waits = config["launch_barrier"] and int(os.getenv("FLAGS_LAUNCH_BARRIER", "1"))
        main, startup = made.of_worker(bool(waits)) if worker else made.of_server()
        loss.block.program = main
        switch_main_program(main)
        switch_startup_program(startup)
        self.main_program, self.startup_program = main, startup
        return None, None


@register
class ParameterServerGraphOptimizer(MetaOptimizerBase):
    """The compiled Program of a worker: the Executor compiles every Program, so that nothing is left to do."""

    def _is_graph_out(self) -> bool:
        return True

    def _can_apply(self) -> bool:
        role = self.role_maker
        return (
            not role._is_collective
            and self.user_defined_strategy.a_sync_configs["k_steps"] >= 0
            and not role._is_server()
        )

    def _disable_strategy(self, dist_strategy: Any) -> None:
        """No flag selects it."""

    def _enable_strategy(self, dist_strategy: Any, context: Any = None) -> None:
        """It is always on."""

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[None, None]:
        """Does nothing: the Program of `loss` runs as it is."""
        return None, None
