"""Optimizers by gradients and their moments: SGD, Momentum, LARS, Adam, Adamax, LAMB, DPSGD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle.optimizer.base import needed
from paddle.optimizer.rules import AdamaxRule, AdamRule, DpsgdRule, LambRule, LarsRule, MomentumRule, SGDRule

from .base import Optimizer

__all__ = [
    "AdamOptimizer",
    "AdamaxOptimizer",
    "DpsgdOptimizer",
    "LambOptimizer",
    "LarsMomentumOptimizer",
    "MomentumOptimizer",
    "SGDOptimizer",
]


class SGDOptimizer(SGDRule, Optimizer):
    """param = param - learning_rate * grad; the arguments are those of :class:`Optimizer`.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> sgd = paddle.fluid.optimizer.SGDOptimizer(0.1, parameter_list=net.parameters())
        >>> loss = net(paddle.ones([1, 2])).sum()
        >>> loss.backward()
        >>> _ = sgd.minimize(loss)
    """

    def __init__(
        self,
        learning_rate: Any,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)


class MomentumOptimizer(MomentumRule, Optimizer):
    """velocity = momentum * velocity + grad; param = param - learning_rate * velocity.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        momentum: factor of the previous velocity.
        use_nesterov: param = param - (grad + momentum * velocity) * learning_rate.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        parameter_list: Any = None,
        use_nesterov: bool = False,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, momentum=momentum)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._init_rule(momentum, use_nesterov)


class AdamOptimizer(AdamRule, Optimizer):
    """Adam (Kingma and Ba, 2014).

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        beta1, beta2: decay of the averages of gradients and of their squares: numbers or Variables.
        epsilon: added to the divisor.
        lazy_mode: SelectedRows gradients update the averages of their rows only.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: float = 1e-08,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._init_rule(beta1, beta2, epsilon, lazy_mode)


class LarsMomentumOptimizer(LarsRule, Optimizer):
    """LARS (You, Gitman and Ginsburg, 2017), momentum with a rate per parameter: learning_rate * lars_coeff *
    norm(param) / (norm(grad) + lars_weight_decay * norm(param) + epsilon), in velocity = momentum * velocity + rate *
    (grad + lars_weight_decay * param); param -= velocity. See the API page of fluid.optimizer.LarsMomentumOptimizer.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        momentum: factor of the previous velocity.
        lars_coeff: trust coefficient: size of a step relative to the parameter's norm.
        lars_weight_decay: weight decay; 0 leaves the learning rate unchanged.
        exclude_from_weight_decay: substrings of the names of parameters without weight decay.
        epsilon: added to the divisor.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> lars = paddle.fluid.optimizer.LarsMomentumOptimizer(0.1, 0.9, parameter_list=net.parameters())
        >>> loss = net(paddle.ones([1, 2])).sum()
        >>> loss.backward()
        >>> _ = lars.minimize(loss)
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        exclude_from_weight_decay: list[str] | None = None,
        epsilon: float = 0,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, momentum=momentum)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._set(momentum=momentum, lars_coeff=float(lars_coeff), epsilon=float(epsilon))
        self._set(lars_weight_decay=float(lars_weight_decay))
        self._exclude_from_weight_decay = exclude_from_weight_decay or []


class AdamaxOptimizer(AdamaxRule, Optimizer):
    """Adamax (Kingma and Ba, 2014): Adam by the infinity norm.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        beta1, beta2: decay of the mean and of the divisor.
        epsilon: lower bound of the divisor.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._set(beta1=beta1, beta2=beta2, epsilon=epsilon)


class LambOptimizer(LambRule, AdamOptimizer):  # type: ignore[misc]  # each rule has an operator of its own
    """LAMB (You et al., 2019): Adam's step plus lamb_weight_decay * param, scaled to the norm of the parameter.

    Args:
        learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name: as of
            :class:`AdamOptimizer`.
        lamb_weight_decay: weight decay coefficient.
        exclude_from_weight_decay_fn: parameter -> whether it has no weight decay.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        name: str | None = None,
    ) -> None:
        needed(AssertionError, lamb_weight_decay=lamb_weight_decay)
        super().__init__(learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name)
        self._lamb_weight_decay = lamb_weight_decay
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn


class DpsgdOptimizer(DpsgdRule, Optimizer):
    """SGD with differential privacy (Abadi et al., 2016): gradients are clipped to the norm `clip`, and get noise.

    Noise is drawn from the generator of `paddle.seed` (in Paddle it depends on the time). See the API page of
    fluid.optimizer.DpsgdOptimizer.

    Args:
        learning_rate, parameter_list: as of :class:`Optimizer`.
        clip: maximum norm of a gradient.
        batch_size: divisor of the noise.
        sigma: the standard deviation of the noise.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> dpsgd = paddle.fluid.optimizer.Dpsgd(0.1, clip=10.0, batch_size=16.0, sigma=1.0,
        ...                                      parameter_list=net.parameters())
        >>> loss = net(paddle.ones([1, 2])).sum()
        >>> loss.backward()
        >>> _ = dpsgd.minimize(loss)
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        clip: float = 0.9,
        batch_size: float = 0.999,
        sigma: float = 1e-08,
        parameter_list: Any = None,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, clip=clip, batch_size=batch_size, sigma=sigma)
        super().__init__(learning_rate, parameter_list)
        self._set(clip=clip, batch_size=batch_size, sigma=sigma)
