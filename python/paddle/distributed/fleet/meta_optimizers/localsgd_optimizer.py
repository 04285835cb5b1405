"""The strategies `localsgd` and `adaptive_localsgd`: workers average their parameters every few steps only."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._programs.guards import default_main_program, default_startup_program, program_guard
from paddle.distributed.program_rings import append_syncs
from paddle.optimizer.rules import MomentumRule, SGDRule
from paddle.static.conditional import cond
from paddle.static.creation import autoincreased_step_counter, create_global_var
from paddle.tensor import assign, cast

from ..base.strategy_registry import Configs, Flag, register
from .amp_optimizer import AMPOptimizer
from .common import OP_ROLE_KEY, CollectiveHelper, OpRole
from .graph_execution_optimizer import GraphExecutionOptimizer
from .meta_optimizer_base import MetaOptimizerBase

__all__ = ["AdaptiveLocalSGDOptimizer", "LocalSGDOptimizer"]

_RINGS = 2
_MOST_STEPS = 16


def _number(name: str, value: float, dtype: Any = "int64") -> Any:
    return create_global_var([1], value, dtype, persistable=True, name=name)


class _PeriodicAverage(MetaOptimizerBase):
    """The base of both: snapshots of the last averaged parameters, and the mean of the changes since then."""

    snapshot_key = "@SNAPSHOT"
    inner = (AMPOptimizer,)

    def _can_apply(self) -> bool:
        return (
            super()._can_apply()
            and self.role_maker._worker_num() > 1
            and isinstance(self.inner_opt, (MomentumRule, SGDRule))
        )

    def snapshot_name(self, param_name: str) -> str:
        """The name of a parameter's snapshot."""
        return param_name + self.snapshot_key

    def create_snapshot_vars(self, program: Any) -> list[tuple[Any, Any]]:
        """Pairs of a parameter and its snapshot: the value after the last average."""
        block = program.global_block()
        params = [p for p in block.all_parameters() if not p.is_distributed]
        return [
            (
                p,
                block.create_var(
                    name=self.snapshot_name(p.name),
                    shape=p.shape,
                    persistable=True,
                    stop_gradient=True,
                    dtype=p.dtype,
                ),
            )
            for p in params
        ]

    def init_snapshot_vars(self, startup_program: Any, param2snapshot: list[tuple[Any, Any]]) -> None:
        """The first snapshots are the initial values."""
        with program_guard(startup_program):
            for param, snapshot in param2snapshot:
                assign(param, snapshot)

    def _step(self, kind: str, x: Any, out: Any, y: Any = None, block: Any = None, **attrs: Any) -> None:
        inputs = {"X": [x]} if y is None else {"X": [x], "Y": [y]}
        block = block or default_main_program().current_block()
        attrs[OP_ROLE_KEY] = OpRole.Optimize
        block.append_op(type=kind, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)

    def _average(self, pairs: list[tuple[Any, Any]], step: Any, last_step: Any) -> None:
        """Appends to the current block: parameter = snapshot - mean(snapshot - parameter); snapshot = parameter."""
        for i, (param, snapshot) in enumerate(pairs):
            self._step("elementwise_sub", snapshot, param, param)
            self._step("c_sync_calc_stream", param, param)
            self._step("c_allreduce_sum", param, param, ring_id=i % _RINGS)
        append_syncs(default_main_program().current_block(), pairs[-1][0], _RINGS, OpRole.Optimize)
        for param, snapshot in pairs:
            self._step("scale", param, param, scale=1.0 / self.role_maker._worker_num())
            self._step("elementwise_sub", snapshot, param, param)
            self._step("assign", param, snapshot)
        assign(step, last_step)

    def _append(self, loss: Any, pairs: list[tuple[Any, Any]]) -> None:
        raise NotImplementedError

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """The inner optimizer's update, then the averages."""
        minimized = self.inner_opt.minimize(loss, startup_program)
        startup_program = startup_program or default_startup_program()
        program = loss.block.program
        CollectiveHelper(self.role_maker, _RINGS).update_startup_program(startup_program)
        self.init_snapshot_vars(startup_program, self.create_snapshot_vars(startup_program))
        pairs = self.create_snapshot_vars(program)
        with program_guard(program, startup_program):
            self._append(loss, pairs)
        return minimized


@register
class LocalSGDOptimizer(_PeriodicAverage):
    """Averages every `k_steps` steps from `begin_step` on, and at every step before."""

    flag = Flag("localsgd", 4, "bool: ranks average their parameters every `k_steps` steps only. False by default.")
    configs = Configs("LocalSGDConfig", 103, "Settings of local SGD.", k_steps=1, begin_step=1)
    auto_configs = {"k_steps": 1, "begin_step": 1}
    conflicts: tuple[type, ...] = (GraphExecutionOptimizer,)  # and AdaptiveLocalSGDOptimizer, below

    def _append(self, loss: Any, pairs: list[tuple[Any, Any]]) -> None:
        config = self._config()
        step = autoincreased_step_counter(begin=1)
        k_steps = _number("k_steps", config["k_steps"])
        begin_step = _number("begin_step", config["begin_step"])
        last_step = _number("last_step", config["begin_step"])

        def communicate() -> None:
            self._average(pairs, step, last_step)

        cond(step > begin_step, lambda: cond(step - last_step == k_steps, communicate), communicate)


@register
class AdaptiveLocalSGDOptimizer(_PeriodicAverage):
    """Averages less often as the loss and the learning rate fall (Lin et al., 2018)."""

    flag = Flag("adaptive_localsgd", 24, "bool: `localsgd`, steps follow the loss. False by default.")
    configs = Configs("AdaptiveLocalSGDConfig", 110, "Settings of adaptive local SGD.", init_k_steps=1, begin_step=1)
    auto_configs = {"init_k_steps": 1, "begin_step": 1}
    conflicts = (GraphExecutionOptimizer, LocalSGDOptimizer)

    def _generate_avg_loss(self, loss: Any, avg_loss: Any) -> None:
        """Appends the mean of the loss over workers, to the loss's block: it is computed at every step."""
        self._step("c_allreduce_sum", loss, avg_loss, block=loss.block, ring_id=0, use_calc_stream=True)
        self._step("c_sync_calc_stream", avg_loss, avg_loss, block=loss.block)
        self._step("scale", avg_loss, avg_loss, block=loss.block, scale=1.0 / self.role_maker._worker_num())

    def _append(self, loss: Any, pairs: list[tuple[Any, Any]]) -> None:
        config = self._config()
        first_k = config["init_k_steps"]
        step = autoincreased_step_counter(begin=1)
        k_steps = _number("k_steps", first_k)
        begin_step = _number("begin_step", config["begin_step"])
        last_step = _number("last_step", 0)
        avg_loss = _number("avg_loss", 0.0, loss.dtype)
        lr_0, loss_0 = (_number(name, 0.0, "float32") for name in ("lr_0", "loss_0"))
        rate = self.user_defined_optimizer._global_learning_rate()

        def initialize() -> None:
            self._generate_avg_loss(loss, avg_loss)
            assign(avg_loss, loss_0)
            assign(rate, lr_0)

        def communicate() -> None:
            self._average(pairs, step, last_step)

        def communicate_avg_loss() -> None:
            communicate()
            self._generate_avg_loss(loss, avg_loss)
            steps = cast(_ops.ceil(_ops.sqrt(lr_0 * avg_loss / (rate * loss_0) * float(first_k))), "int64")
            most, least = (_ops.fill_constant(shape=[1], dtype=step.dtype, value=float(n)) for n in (_MOST_STEPS, 1))
            assign(_ops.elementwise_max(_ops.elementwise_min(steps, most), least), k_steps)

        cond(step == 1, initialize)
        cond(step > begin_step, lambda: cond(step - last_step == k_steps, communicate_avg_loss), communicate)


LocalSGDOptimizer.conflicts += (AdaptiveLocalSGDOptimizer,)
