"""Learning rate decays of fluid.dygraph by epochs: the rate changes when `epoch()` is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle._programs.variable import Variable
from paddle.optimizer.lr_scheduler import check_factor, check_milestones, check_step_size

from .base import LearningRateDecay

__all__ = ["StepDecay", "MultiStepDecay", "LambdaDecay"]


class _LearningRateEpochDecay(LearningRateDecay):
    """Base of the decays by epochs; a subclass implements `get_lr()`.

    Args:
        learning_rate (float|int): the initial rate (TypeError otherwise, ValueError if negative).
        dtype (str, optional): float32 (None) or float64.
    """

    def __init__(self, learning_rate: float, dtype: str | None = None) -> None:
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"learning_rate must be a float or int, got {type(learning_rate)}")
        if learning_rate < 0:
            raise ValueError(f"Invalid learning rate: {learning_rate}")
        self.base_lr = float(learning_rate)
        self.epoch_num = -1
        self.dtype = "float32" if dtype is None else dtype
        self.learning_rate = self.create_lr_var(self.base_lr)
        self.epoch()

    def _state_keys(self) -> None:
        self.keys = ["epoch_num", "learning_rate"]

    def __call__(self) -> Any:
        """The rate of the current epoch."""
        if not isinstance(self.learning_rate, Variable):
            self.learning_rate = self.create_lr_var(self.learning_rate)
        return self.learning_rate

    def epoch(self, epoch: int | None = None) -> None:
        """Advances to the next epoch, or to `epoch`, and computes its rate."""
        self.epoch_num = self.epoch_num + 1 if epoch is None else epoch
        self.learning_rate = self.get_lr()

    def get_lr(self) -> Any:
        """The rate of `self.epoch_num`; implemented by subclasses."""
        raise NotImplementedError(f"'get_lr' is not implemented in class {type(self).__name__}")

    def _decayed(self, decay_rate: float, times: int) -> Any:
        return self.base_lr * (self.create_lr_var(decay_rate) ** times)


class StepDecay(_LearningRateEpochDecay):
    """learning_rate * decay_rate**(epoch // step_size).

    Args:
        learning_rate (float|int): the initial rate.
        step_size (int): epochs between reductions (TypeError otherwise).
        decay_rate (float): below 1 (ValueError otherwise).

    Examples:
        >>> from paddle.fluid.dygraph import StepDecay
        >>> rate = StepDecay(1.0, step_size=2, decay_rate=0.5)
        >>> rate.epoch(3)
        >>> rate().numpy().item()
        0.5
    """

    def __init__(self, learning_rate: float, step_size: int, decay_rate: float = 0.1) -> None:
        check_step_size(step_size)
        check_factor("decay_rate", decay_rate)
        self.step_size = step_size
        self.decay_rate = decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> Any:
        """The rate of the current epoch."""
        return self._decayed(self.decay_rate, self.epoch_num // self.step_size)


class MultiStepDecay(_LearningRateEpochDecay):
    """learning_rate * decay_rate**(number of `milestones` reached).

    Args:
        learning_rate (float|int): the initial rate.
        milestones (tuple|list of int): ascending epochs (TypeError, ValueError otherwise).
        decay_rate (float): below 1 (ValueError otherwise).

    Examples:
        >>> from paddle.fluid.dygraph import MultiStepDecay
        >>> rate = MultiStepDecay(1.0, milestones=[2, 4], decay_rate=0.5)
        >>> rate.epoch(4)
        >>> rate().numpy().item()
        0.25
    """

    def __init__(self, learning_rate: float, milestones: tuple[int, ...] | list[int], decay_rate: float = 0.1) -> None:
        check_milestones(milestones)
        check_factor("decay_rate", decay_rate)
        self.milestones = milestones
        self.decay_rate = decay_rate
        super().__init__(learning_rate)

    def get_lr(self) -> Any:
        """The rate of the current epoch."""
        return self._decayed(self.decay_rate, sum(self.epoch_num >= milestone for milestone in self.milestones))


class LambdaDecay(_LearningRateEpochDecay):
    """learning_rate * lr_lambda(epoch).

    Args:
        learning_rate (float|int): the initial rate.
        lr_lambda (callable): epoch to factor (TypeError if not callable).

    Examples:
        >>> from paddle.fluid.dygraph import LambdaDecay
        >>> rate = LambdaDecay(1.0, lr_lambda=lambda epoch: 0.5**epoch)
        >>> rate.epoch()
        >>> rate().numpy().item()
        0.5
    """

    def __init__(self, learning_rate: float, lr_lambda: Callable[[int], float]) -> None:
        if not callable(lr_lambda):
            raise TypeError(f"LambdaDecay: lr_lambda must be callable, got {type(lr_lambda)}")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate)

    def get_lr(self) -> Any:
        """The rate of the current epoch."""
        return self.base_lr * self.lr_lambda(self.epoch_num)
