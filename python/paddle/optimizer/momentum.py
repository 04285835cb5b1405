"""The Momentum optimizer."""

from __future__ import annotations

from typing import Any

from paddle._basics.mode import in_static_mode
from paddle.nn.layer_helper import LayerHelper

from .base import needed
from .optimizer import Optimizer
from .rules import MomentumRule

__all__ = ["Momentum"]


class Momentum(MomentumRule, Optimizer):
    """velocity = momentum * velocity + grad; param = param - learning_rate * velocity.

    Args:
        learning_rate, parameters, weight_decay, grad_clip, name: see :class:`Optimizer`.
        momentum: the factor of the previous velocity.
        use_nesterov: param = param - (grad + momentum * velocity) * learning_rate.
        multi_precision: in static Programs: keep float32 copies of float16 parameters.
        rescale_grad: a factor of the gradients.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> momentum = paddle.optimizer.Momentum(0.1, 0.9, parameters=net.parameters())
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> momentum.step()
        >>> sorted(momentum.state_dict())[0].endswith("_velocity_0")
        True
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        momentum: Any = 0.9,
        parameters: Any = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate, momentum=momentum)
        super().__init__(learning_rate, parameters, self._left_to_decay(weight_decay), grad_clip, name)
        self._init_rule(momentum, use_nesterov, multi_precision, rescale_grad)
        if not in_static_mode():
            assert self._parameter_list is not None
            self.helper = LayerHelper(type(self).__name__)
            for param in self._parameter_list:
                self._add_accumulator(self._velocity_acc_str, param)
