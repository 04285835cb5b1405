"""The RMSProp optimizer."""

from __future__ import annotations

from typing import Any

from .base import needed
from .optimizer import Optimizer
from .rules import RMSPropRule

__all__ = ["RMSProp"]


class RMSProp(RMSPropRule, Optimizer):
    """RMSProp (Tieleman and Hinton, 2012): velocity = momentum * velocity + learning_rate * grad / sqrt(mean of squared
    gradients + epsilon); param -= velocity. See the API page of paddle.optimizer.RMSProp.

    Args:
        learning_rate, parameters, weight_decay, grad_clip, name: see :class:`Optimizer`.
        rho: the decay rate of the means.
        epsilon: added under the square root.
        momentum: the factor of the previous velocity.
        centered: subtract the squared mean of the gradients under the square root.

    Raises:
        ValueError: if rho, epsilon, momentum or learning_rate is None or negative.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> rmsprop = paddle.optimizer.RMSProp(learning_rate=0.1, parameters=net.parameters(), centered=True)
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> rmsprop.step()
        >>> len(rmsprop.state_dict())
        6
    """

    def __init__(
        self,
        learning_rate: Any,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate, rho=rho, epsilon=epsilon, momentum=momentum)
        for what, value in (("rho", rho), ("epsilon", epsilon), ("momentum", momentum)):
            if not 0.0 <= value:
                raise ValueError(f"Invalid value of {what}, expect {what} >= 0.")
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._set(rho=rho, epsilon=epsilon, momentum=momentum, centered=centered)
