"""DGCOptimizer: the strategy's `dgc`."""

from __future__ import annotations

from typing import Any

from paddle.optimizer.dgc import DGCMomentumRule
from paddle.optimizer.rules import MomentumRule

from .meta_optimizer_base import AroundAnother, applies_to, logger, updated_by

__all__ = ["DGCOptimizer"]


class DGCOptimizer(AroundAnother):
    """Momentum whose gradients travel as their largest elements: deep gradient compression."""

    field = "dgc"
    auto_configs = {"rampup_begin_step": 0, "rampup_step": 1}

    def _can_apply(self) -> bool:
        if not super()._can_apply() or not applies_to(self.inner_opt, MomentumRule, "dgc"):
            return False
        if self.role_maker._worker_num() <= 1:
            logger.warning("dgc is for several workers, and there is one: it is not applied")
            return False
        return True

    def _make(self) -> Any:
        config, momentum = self.user_defined_strategy.dgc_configs, self.inner_opt
        made = updated_by(momentum, DGCMomentumRule)
        made._init_rule(momentum._momentum, momentum._use_nesterov)
        made._init_dgc(
            config["rampup_begin_step"],
            config["rampup_step"],
            list(config["sparsity"]) or [0.999],
            self.role_maker._worker_num(),
        )
        return made
