"""Optimizers with a step size per element: Adagrad, DecayedAdagrad, Adadelta, RMSProp, FTRL."""

from __future__ import annotations

from typing import Any

from paddle.optimizer.base import needed
from paddle.optimizer.rules import AdadeltaRule, AdagradRule, DecayedAdagradRule, FtrlRule, RMSPropRule

from .base import Optimizer

__all__ = ["AdadeltaOptimizer", "AdagradOptimizer", "DecayedAdagradOptimizer", "FtrlOptimizer", "RMSPropOptimizer"]


class AdagradOptimizer(AdagradRule, Optimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011): moment += grad * grad; param -= learning_rate * grad / (sqrt(moment) +
    epsilon).

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        epsilon: added to the divisor.
        initial_accumulator_value: initial value of the moments.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> adagrad = paddle.fluid.optimizer.Adagrad(0.1, parameter_list=net.parameters())
        >>> loss = net(paddle.ones([1, 2])).sum()
        >>> loss.backward()
        >>> _ = adagrad.minimize(loss)
    """

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1e-06,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, epsilon=epsilon)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._set(epsilon=epsilon)
        self.initial_accumulator_value = initial_accumulator_value


class DecayedAdagradOptimizer(DecayedAdagradRule, Optimizer):
    """Adagrad with a moving average: moment = decay * moment + (1 - decay) * grad * grad.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        decay: decay of the average.
        epsilon: added to the divisor.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: float = 0.95,
        epsilon: float = 1e-06,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, decay=decay, epsilon=epsilon)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._set(decay=decay, epsilon=epsilon)


class AdadeltaOptimizer(AdadeltaRule, Optimizer):
    """Adadelta (Zeiler, 2012): step sizes follow the previous steps. Its operator reads no learning rate.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        epsilon: added to the averages of squared gradients and steps.
        rho: decay of the averages.
    """

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate, epsilon=epsilon, rho=rho)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._set(epsilon=epsilon, rho=rho)


class RMSPropOptimizer(RMSPropRule, Optimizer):
    """RMSProp: velocity = momentum * velocity + learning_rate * grad / sqrt(mean of squares + epsilon), and
    param -= velocity.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        rho: decay of the averages.
        epsilon: added under the square root.
        momentum: factor of the previous velocity.
        centered: subtract the squared mean of the gradients under the square root.
    """

    def __init__(
        self,
        learning_rate: Any,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate, rho=rho, epsilon=epsilon, momentum=momentum)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._set(rho=rho, epsilon=epsilon, momentum=momentum, centered=centered)


class FtrlOptimizer(FtrlRule, Optimizer):
    """Follow the regularized leader (McMahan et al., 2013): L1 sets weights of rare rows to exactly zero.

    SelectedRows gradients update their rows only. See the API page of fluid.optimizer.FtrlOptimizer.

    Args:
        learning_rate, parameter_list, regularization, grad_clip, name: as of :class:`Optimizer`.
        l1, l2: factors of L1 and L2.
        lr_power: the exponent of the sum of squares in the rate; -0.5 as in Adagrad.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> ftrl = paddle.fluid.optimizer.FtrlOptimizer(0.1, l1=0.01, parameter_list=net.parameters())
        >>> loss = net(paddle.ones([1, 2])).sum()
        >>> loss.backward()
        >>> _ = ftrl.minimize(loss)
    """

    def __init__(
        self,
        learning_rate: Any,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._set(l1=l1, l2=l2, lr_power=lr_power)
