"""Optimizer: the base of the optimizers in paddle.optimizer."""

from __future__ import annotations

from typing import Any

from paddle._basics import mode
from paddle._basics.mode import in_static_mode
from paddle.regularizer import L2Decay

from .base import OptimizerBase, Pairs, set_recording
from .lr_scheduler import LRScheduler

__all__ = ["Optimizer"]


class Optimizer(OptimizerBase):
    """Base of all optimizers of paddle.optimizer.

    Args:
        learning_rate: a float or an LRScheduler (TypeError otherwise).
        parameters: the Tensors to train; required in dygraph mode (AttributeError), None in static mode means all
            parameters of the loss's program.
        weight_decay: a float (the coefficient of L2Decay) or a regularizer; a parameter's regularizer takes precedence.
        grad_clip: ClipGradByValue, ClipGradByNorm or ClipGradByGlobalNorm (TypeError otherwise).
        name: prefix of the names of the accumulators.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> before = net.bias.numpy().item()
        >>> sgd.step()
        >>> round(before - net.bias.numpy().item(), 3)
        0.1
        >>> sgd.clear_grad()
    """

    def __init__(
        self,
        learning_rate: Any,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        self._init_state(parameters, grad_clip, name)
        self._init_eager(weight_decay, "parameters", "weight_decay")
        if not isinstance(learning_rate, (float, LRScheduler)):
            raise TypeError(f"learning_rate must be a float or an LRScheduler, got {type(learning_rate)}")
        self.regularization = L2Decay(weight_decay) if isinstance(weight_decay, float) else weight_decay
        self._learning_rate = learning_rate
        self.clear_gradients = self.clear_grad

    @mode.dygraph_only
    def set_lr(self, value: float) -> None:
        """Changes the learning rate.

        Raises:
            TypeError: for a value that is not a number.
            RuntimeError: if the rate is controlled by a scheduler.
        """
        if not isinstance(value, (int, float)):
            raise TypeError(f"set_lr: value must be a float, got {type(value)}")
        if isinstance(self._learning_rate, LRScheduler):
            raise RuntimeError("set_lr: the learning rate is an LRScheduler, which sets its own values")
        self._learning_rate = float(value)

    def get_lr(self) -> float:
        """The learning rate of this step.

        Examples:
            >>> import paddle
            >>> paddle.optimizer.SGD(0.5, parameters=paddle.nn.Linear(2, 2).parameters()).get_lr()
            0.5
        """
        rate = self._learning_rate
        return rate if isinstance(rate, float) else rate()

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """The first step of `minimize`: in static mode appends the gradient operators of `loss`.

        Args:
            loss: Variable of shape [1].
            startup_program: the Program of initializers (default: the default one).
            parameters: Tensors or names (default: the optimizer's, or all).
            no_grad_set: variables or names without gradient.
            callbacks: functions called after each gradient operator.

        Returns:
            Pairs of parameter and gradient; in dygraph mode those computed by `loss.backward()`.
        """
        return self._backward(loss, startup_program, parameters, no_grad_set, callbacks)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Pairs]:
        """`backward` followed by `apply_gradients`; in dygraph mode called after `loss.backward()`.

        Returns:
            (update operators, pairs of parameter and gradient).

        Examples:
            >>> import paddle
            >>> net = paddle.nn.Linear(2, 1)
            >>> loss = net(paddle.ones([1, 2])).sum()
            >>> loss.backward()
            >>> _, pairs = paddle.optimizer.SGD(0.1, parameters=net.parameters()).minimize(loss)
            >>> len(pairs)
            2
        """
        return self._minimize(loss, startup_program, parameters, no_grad_set)

    @mode.dygraph_only
    def clear_grad(self) -> None:
        """Clears the gradients of all trainable parameters."""
        self._clear()

    def step(self) -> None:
        """Updates all parameters by their gradients (dygraph mode)."""
        assert not in_static_mode(), "step() works in dynamic graph mode only"
        assert self._parameter_list is not None
        self._dtype = None
        former = set_recording(False)
        try:
            self._dygraph_pass(self._gradients(self._parameter_list))
        finally:
            set_recording(former)
