"""DGCMomentumOptimizer, which needs CUDA."""
from __future__ import annotations

from typing import Any

from paddle._basics import mode
from paddle._basics.missing import require

from .base import Optimizer

__all__ = ["DGCMomentumOptimizer"]


class DGCMomentumOptimizer(Optimizer):
    """Momentum whose gradients are exchanged sparsely (deep gradient compression, Lin et al., 2017).

    Paddle has the operators for it (`dgc`, `dgc_momentum`) in its builds for CUDA only; they are not here.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        momentum, use_nesterov: as of :class:`MomentumOptimizer`.
        rampup_begin_step, rampup_step, sparsity: from which step on, in how many steps, and how sparsely.
        num_trainers: how many processes train.

    Raises:
        Exception: in dygraph mode.
        paddle.OperatorMissing: a NotImplementedError, always in static mode.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        rampup_begin_step: int,
        rampup_step: int = 1,
        sparsity: list[float] = [0.999],  # noqa: B006
        parameter_list: Any = None,
        use_nesterov: bool = False,
        num_trainers: int | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        if mode.in_dygraph_mode():
            raise Exception("DGCMomentumOptimizer is for Programs only")
        require("paddle.fluid.optimizer.DGCMomentumOptimizer", "dgc_momentum")

    def apply_gradients(self, params_grads: Any) -> list[Any]:
        """Never reached: there is no such optimizer without its operators."""
        require("paddle.fluid.optimizer.DGCMomentumOptimizer", "dgc_momentum")
