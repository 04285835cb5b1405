"""The strategy `dgc`: deep gradient compression."""

from __future__ import annotations

from typing import Any

from paddle.optimizer.dgc import DGCMomentumRule
from paddle.optimizer.rules import MomentumRule

from ..base.strategy_registry import Configs, Flag, register
from .meta_optimizer_base import AroundAnother, applies_to, logger, updated_by

__all__ = ["DGCOptimizer"]


@register
class DGCOptimizer(AroundAnother):
    """Momentum of which only the largest elements of each gradient are exchanged."""

    flag = Flag("dgc", 5, "bool: deep gradient compression, the largest entries are sent. False by default.")
    configs = Configs(
        "DGCConfig", 105, "Settings of deep gradient compression.", rampup_begin_step=0, rampup_step=1, sparsity=float
    )
    auto_configs = {"rampup_begin_step": 0, "rampup_step": 1}

    def _can_apply(self) -> bool:
        if not super()._can_apply() or not applies_to(self.inner_opt, MomentumRule, "dgc"):
            return False
        if self.role_maker._worker_num() <= 1:
            logger.warning("dgc is for several workers, and there is one: it is not applied")
            return False
        return True

    def _make(self) -> Any:
        config, momentum = self._config(), self.inner_opt
        made = updated_by(momentum, DGCMomentumRule)
        made._init_rule(momentum._momentum, momentum._use_nesterov)
        made._init_dgc(
            config["rampup_begin_step"],
            config["rampup_step"],
            list(config["sparsity"]) or [0.999],
            self.role_maker._worker_num(),
        )
        return made
