"""fluid.contrib.optimizer: Momentum with weight decay inside its operator."""

from __future__ import annotations

from typing import Any

from paddle.fluid.optimizer import MomentumOptimizer

__all__ = ["Momentum"]


class Momentum(MomentumOptimizer):
    """fluid.optimizer.Momentum with one operator for decay (L2Decay), scaling and update.

    Args:
        learning_rate, momentum, parameter_list, use_nesterov, regularization, grad_clip, name: as of
            :class:`paddle.fluid.optimizer.Momentum`.
        multi_precision: in static Programs: keep float32 copies of float16 parameters.
        rescale_grad: factor of the gradients.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> decay = paddle.fluid.regularizer.L2Decay(0.1)
        >>> momentum = paddle.fluid.contrib.optimizer.Momentum(
        ...     0.1, 0.9, parameter_list=net.parameters(), regularization=decay)
        >>> loss = net(paddle.ones([1, 2])).sum()
        >>> loss.backward()
        >>> _ = momentum.minimize(loss)
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        parameter_list: Any = None,
        use_nesterov: bool = False,
        regularization: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        name: str | None = None,
    ) -> None:
        before = self._left_to_decay(regularization)
        super().__init__(learning_rate, momentum, parameter_list, use_nesterov, before, grad_clip, name)
        self._multi_precision = multi_precision
        self._rescale_grad = rescale_grad
