"""DGCMomentumOptimizer: momentum with sparse exchange of gradients."""

from __future__ import annotations

from typing import Any

from paddle._basics import mode
from paddle._basics.mode import in_static_mode
from paddle.optimizer.dgc import DGCMomentumRule

from .base import Optimizer

__all__ = ["DGCMomentumOptimizer"]


class DGCMomentumOptimizer(DGCMomentumRule, Optimizer):
    """Deep gradient compression (Lin et al., 2017): momentum whose gradients are exchanged sparsely.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/fluid/optimizer/DGCMomentumOptimizer_en.html

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`; the clipping must be
            by norm (TypeError).
        momentum, use_nesterov: as of :class:`MomentumOptimizer`.
        rampup_begin_step, rampup_step, sparsity: first step of compression, number of steps to the final sparsity, and
            the fractions of a gradient that are not sent.
        num_trainers: number of trainers; required with `grad_clip` (AssertionError).

    Raises:
        Exception: in dygraph mode.
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
        if not in_static_mode():
            raise Exception("In dygraph, don't support DGCMomentumOptimizer.")
        assert learning_rate is not None
        assert momentum is not None
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._init_rule(momentum, use_nesterov)
        self._init_dgc(rampup_begin_step, rampup_step, sparsity, num_trainers)
