"""The strategy `recompute`: backward computes activations again."""

from __future__ import annotations

from typing import Any

from paddle.incubate.optimizer.recompute import RecomputeOptimizer as Recompute

from ..base.strategy_registry import Configs, Flag, register
from .dgc_optimizer import DGCOptimizer
from .graph_execution_optimizer import GraphExecutionOptimizer
from .lamb_optimizer import LambOptimizer
from .lars_optimizer import LarsOptimizer
from .meta_optimizer_base import AroundAnother

__all__ = ["RecomputeOptimizer"]


@register
class RecomputeOptimizer(AroundAnother):
    """Keeps the activations named in `checkpoints` and recomputes those between them in backward."""

    flag = Flag("recompute", 3, "bool: backward computes activations again, to save memory. False by default.")
    configs = Configs(
        "RecomputeConfig",
        101,
        "Settings of recomputation; `checkpoints` names what is kept.",
        checkpoints=str,
        enable_offload=False,
        checkpoint_shape=int,
    )
    inner = (LarsOptimizer, LambOptimizer, GraphExecutionOptimizer, DGCOptimizer)

    def _can_apply(self) -> bool:
        return super()._can_apply() and bool(self._config()["checkpoints"])

    def _make(self) -> Any:
        config = self._config()
        made = Recompute(self.inner_opt)
        made._set_checkpoints(list(config["checkpoints"]))
        if config["enable_offload"]:
            made._enable_offload()
            made.checkpoint_shape = list(config["checkpoint_shape"])
        return made
