"""The strategy `amp`: mixed precision."""

from __future__ import annotations

from typing import Any

from paddle.static import amp

from ..base.strategy_registry import Configs, Flag, register
from .dgc_optimizer import DGCOptimizer
from .graph_execution_optimizer import GraphExecutionOptimizer
from .lamb_optimizer import LambOptimizer
from .lars_optimizer import LarsOptimizer
from .meta_optimizer_base import AroundAnother
from .recompute_optimizer import RecomputeOptimizer

__all__ = ["AMPOptimizer"]


@register
class AMPOptimizer(AroundAnother):
    """Computes partly in float16, as :func:`paddle.static.amp.decorate` does."""

    flag = Flag("amp", 2, "bool: mixed precision. False by default.")
    configs = Configs(
        "AMPConfig",
        102,
        "Settings of mixed precision.",
        init_loss_scaling=32768.0,
        incr_every_n_steps=1000,
        decr_every_n_nan_or_inf=2,
        incr_ratio=2.0,
        decr_ratio=0.8,
        use_dynamic_loss_scaling=True,
        custom_white_list=str,
        custom_black_list=str,
        custom_black_varnames=str,
        use_pure_fp16=False,
        use_fp16_guard=True,
    )
    auto_configs = {
        "init_loss_scaling": 32768.0,
        "incr_every_n_steps": 1000,
        "decr_every_n_nan_or_inf": 2,
        "incr_ratio": 2.0,
        "decr_ratio": 0.8,
        "use_dynamic_loss_scaling": True,
    }
    inner = (LarsOptimizer, LambOptimizer, RecomputeOptimizer, GraphExecutionOptimizer)
    conflicts = (DGCOptimizer,)

    def _make(self) -> Any:
        config = dict(self._config())
        lists = [set(config.pop(f"custom_{name}")) for name in ("white_list", "black_list", "black_varnames")]
        made = amp.decorate(self.inner_opt, amp.CustomOpLists(*lists), **config)
        # Sharding exchanges the flags of its gradients itself, in one all-reduce.
        made._set_distributed(self.role_maker._worker_num() > 1 and not self.user_defined_strategy.sharding)
        return made

    def amp_init(self, place: Any, scope: Any = None, test_program: Any = None, use_fp16_test: bool = False) -> None:
        """Casts parameters to float16, as the optimizer does that `decorate` returns."""
        self._wrapped().amp_init(place, scope, test_program, use_fp16_test)
