"""AMPOptimizer: the strategy's `amp`."""

from __future__ import annotations

from typing import Any

from paddle.static import amp

from .meta_optimizer_base import AroundAnother

__all__ = ["AMPOptimizer"]


class AMPOptimizer(AroundAnother):
    """Computes partly in float16, as :func:`paddle.static.amp.decorate` does."""

    field = "amp"
    auto_configs = {
        "init_loss_scaling": 32768.0,
        "incr_every_n_steps": 1000,
        "decr_every_n_nan_or_inf": 2,
        "incr_ratio": 2.0,
        "decr_ratio": 0.8,
        "use_dynamic_loss_scaling": True,
    }

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.meta_optimizers_white_list = [
            "LarsOptimizer",
            "LambOptimizer",
            "RecomputeOptimizer",
            "GraphExecutionOptimizer",
        ]
        self.meta_optimizers_black_list = ["DGCOptimizer"]

    def _make(self) -> Any:
        config = dict(self.user_defined_strategy.amp_configs)
        lists = [set(config.pop(f"custom_{name}")) for name in ("white_list", "black_list", "black_varnames")]
        made = amp.decorate(self.inner_opt, amp.CustomOpLists(*lists), **config)
        # The flags of sharded gradients are exchanged by that strategy, for all of them at once.
        made._set_distributed(self.role_maker._worker_num() > 1 and not self.user_defined_strategy.sharding)
        return made

    def amp_init(self, place: Any, scope: Any = None, test_program: Any = None, use_fp16_test: bool = False) -> None:
        """As of the optimizer that `decorate` returns."""
        self._wrapped().amp_init(place, scope, test_program, use_fp16_test)
