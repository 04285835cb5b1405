"""The Lamb optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import needed
from .optimizer import Optimizer
from .rules import LambRule

__all__ = ["Lamb"]


class Lamb(LambRule, Optimizer):
    """LAMB (You et al., 2019) for large batches: the step of Adam plus lamb_weight_decay * param, scaled to the norm of
    the parameter times the learning rate. See the API page of paddle.optimizer.Lamb.

    Args:
        learning_rate, parameters, grad_clip, name: see :class:`Optimizer`.
        lamb_weight_decay: the factor of the weights in the step.
        beta1, beta2: the decay rates of the means of gradients and of their squares.
        epsilon: added to the divisor.
        exclude_from_weight_decay_fn: maps a parameter to whether it is excluded from weight decay.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> lamb = paddle.optimizer.Lamb(0.1, parameters=net.parameters(),
        ...                              exclude_from_weight_decay_fn=lambda p: p.name.endswith("b_0"))
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> lamb.step()
        >>> len(lamb.state_dict())
        8
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        name: str | None = None,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        super().__init__(learning_rate, parameters, None, grad_clip, name)
        self._set(lamb_weight_decay=lamb_weight_decay, beta1=beta1, beta2=beta2, epsilon=epsilon)
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn
