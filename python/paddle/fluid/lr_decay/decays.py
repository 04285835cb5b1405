"""Learning rate decays of fluid.dygraph by steps: an optimizer of fluid calls them once per step.

Their rates are Tensors of the shape [1], computed in float32 (or `dtype`) by the operators of the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from paddle import _ops
from paddle._basics.flags import is_18
from paddle._programs.variable import Variable
from paddle.optimizer.lr_scheduler import Plateau

from . import formulas
from .base import LearningRateDecay

__all__ = [
    "NoamDecay",
    "PiecewiseDecay",
    "NaturalExpDecay",
    "ExponentialDecay",
    "InverseTimeDecay",
    "PolynomialDecay",
    "CosineDecay",
    "LinearLrWarmup",
    "ReduceLROnPlateau",
]


class PiecewiseDecay(LearningRateDecay):
    """values[i] while the step is below boundaries[i], the last value afterwards.

    Args:
        boundaries (list of int): ascending steps.
        values (list of float): one more than `boundaries`.
        begin, step, dtype: as of :class:`LearningRateDecay`.

    Examples:
        >>> from paddle.fluid.dygraph import PiecewiseDecay
        >>> rate = PiecewiseDecay([1, 2], [0.5, 0.25, 0.125], begin=0)
        >>> [rate().numpy().item() for _ in range(4)]
        [0.5, 0.25, 0.125, 0.125]
    """

    def __init__(
        self, boundaries: list[int], values: list[float], begin: int, step: int = 1, dtype: str = "float32"
    ) -> None:
        super().__init__(begin, step, dtype)
        self.boundaries = boundaries
        self.values = values
        self.vars = list(values)

    def step(self) -> Any:
        """The value at the current step."""
        for boundary, value in zip(self.boundaries, self.vars, strict=False):
            if self.step_num < boundary:
                return value
        return self.create_lr_var(self.vars[len(self.values) - 1])


class _PeriodicDecay(LearningRateDecay):
    """Base of the three decays by fractions of `decay_steps`."""

    def __init__(
        self,
        learning_rate: Any,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        begin: int = 0,
        step: int = 1,
        dtype: str = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate = learning_rate
        self.decay_steps = decay_steps
        self.decay_rate = decay_rate
        self.staircase = staircase

    #: (learning_rate, decay_rate, periods) -> rate
    _formula: Callable[..., Any]

    def step(self) -> Any:
        """The rate at the current step."""
        periods = self.create_lr_var(self.step_num / self.decay_steps)
        if self.staircase:
            periods = _ops.floor(periods)
        return self._formula(self.learning_rate, self.decay_rate, periods)


class NaturalExpDecay(_PeriodicDecay):
    """learning_rate * exp(-decay_rate * step / decay_steps).

    Args:
        learning_rate (float|int|Tensor): the initial rate.
        decay_steps (int): steps per period.
        decay_rate (float): the decay per period.
        staircase (bool): round down to whole periods.
        begin, step, dtype: as of :class:`LearningRateDecay`.

    Examples:
        >>> from paddle.fluid.dygraph import NaturalExpDecay
        >>> rate = NaturalExpDecay(1.0, decay_steps=2, decay_rate=0.5, staircase=True)
        >>> [round(rate().numpy().item(), 4) for _ in range(4)]
        [1.0, 1.0, 0.6065, 0.6065]
    """

    _formula = staticmethod(formulas.natural_exp)


class ExponentialDecay(_PeriodicDecay):
    """learning_rate * decay_rate**(step / decay_steps).

    Args:
        learning_rate (float|int|Tensor): the initial rate.
        decay_steps (int): steps per period.
        decay_rate (float): factor per period.
        staircase (bool): round down to whole periods.
        begin, step, dtype: as of :class:`LearningRateDecay`.

    Examples:
        >>> from paddle.fluid.dygraph import ExponentialDecay
        >>> rate = ExponentialDecay(1.0, decay_steps=1, decay_rate=0.5)
        >>> [rate().numpy().item() for _ in range(3)]
        [1.0, 0.5, 0.25]
    """

    _formula = staticmethod(formulas.exponential)


class InverseTimeDecay(_PeriodicDecay):
    """learning_rate / (1 + decay_rate * step / decay_steps).

    Args:
        learning_rate (float|int|Tensor): the initial rate.
        decay_steps (int): steps per period.
        decay_rate (float): the decay per period.
        staircase (bool): round down to whole periods.
        begin, step, dtype: as of :class:`LearningRateDecay`.

    Examples:
        >>> from paddle.fluid.dygraph import InverseTimeDecay
        >>> rate = InverseTimeDecay(1.0, decay_steps=1, decay_rate=1.0)
        >>> rate().numpy().item(), rate().numpy().item()
        (1.0, 0.5)
    """

    _formula = staticmethod(formulas.inverse_time)


class PolynomialDecay(LearningRateDecay):
    """(learning_rate - end_learning_rate) * (1 - step / decay_steps)**power + end_learning_rate; constant after
    `decay_steps`.

    Args:
        learning_rate (float|int|Tensor): the initial rate.
        decay_steps (int): step at which the final rate is reached.
        end_learning_rate (float): the final rate.
        power (float): the exponent.
        cycle (bool): extend `decay_steps` to the next multiple that is not below the step.
        begin, step, dtype: as of :class:`LearningRateDecay`.

    Examples:
        >>> from paddle.fluid.dygraph import PolynomialDecay
        >>> rate = PolynomialDecay(1.0, decay_steps=2, end_learning_rate=0.0)
        >>> [rate().numpy().item() for _ in range(4)]
        [1.0, 0.5, 0.0, 0.0]
    """

    def __init__(
        self,
        learning_rate: Any,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        begin: int = 0,
        step: int = 1,
        dtype: str = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate = learning_rate
        self.decay_steps = decay_steps
        self.end_learning_rate = end_learning_rate
        self.power = power
        self.cycle = cycle

    def step(self) -> Any:
        """The rate at the current step."""
        step: Any = self.step_num
        span: Any = self.decay_steps
        if self.cycle:
            # ceil(step / decay_steps), at least one
            periods = 1.0 if step == 0 else math.ceil(self.create_lr_var(step / float(span)).numpy()[0])
            span = span * self.create_lr_var(periods)
        else:
            step = self.create_lr_var(min(step, span))
        return formulas.polynomial(self.learning_rate, step, span, self.end_learning_rate, self.power)


class CosineDecay(LearningRateDecay):
    """learning_rate * (cos(epoch * pi / epochs) + 1) / 2, where epoch is step // step_each_epoch.

    Args:
        learning_rate (float|int|Tensor): the initial rate.
        step_each_epoch (int): steps per epoch.
        epochs (int): number of epochs.
        begin, step, dtype: as of :class:`LearningRateDecay`.

    Examples:
        >>> from paddle.fluid.dygraph import CosineDecay
        >>> rate = CosineDecay(1.0, step_each_epoch=1, epochs=2)
        >>> rate().numpy().item(), round(rate().numpy().item(), 6)
        (1.0, 0.5)
    """

    def __init__(
        self,
        learning_rate: Any,
        step_each_epoch: int,
        epochs: int,
        begin: int = 0,
        step: int = 1,
        dtype: str = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate = learning_rate
        self.step_each_epoch = step_each_epoch
        self.epochs = epochs

    def step(self) -> Any:
        """The rate at the current step."""
        done = self.create_lr_var(self.step_num / self.step_each_epoch)
        return formulas.cosine(self.learning_rate, _ops.floor(done), self.epochs)


class NoamDecay(LearningRateDecay):
    """learning_rate * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5).

    Args:
        d_model (int|float|Tensor): width of the model.
        warmup_steps (int|Tensor): number of warmup steps.
        begin, step, dtype: as of :class:`LearningRateDecay`.
        learning_rate (float|int|Tensor): a factor.

    Examples:
        >>> from paddle.fluid.dygraph import NoamDecay
        >>> rate = NoamDecay(d_model=4, warmup_steps=4)
        >>> [rate().numpy().item() for _ in range(4)]
        [0.0625, 0.125, 0.1875, 0.25]
    """

    def __init__(
        self,
        d_model: Any,
        warmup_steps: Any,
        begin: int = 1,
        step: int = 1,
        dtype: str = "float32",
        learning_rate: Any = 1.0,
    ) -> None:
        super().__init__(begin, step, dtype)
        self.learning_rate = learning_rate
        self.d_model = d_model
        self.warmup_steps = warmup_steps

    def step(self) -> Any:
        """The rate at the current step."""
        falling = self.create_lr_var(self.step_num**-0.5)
        rising = self.create_lr_var((self.warmup_steps**-1.5) * self.step_num)
        return formulas.noam(self.learning_rate, self.d_model, falling, rising)


class LinearLrWarmup(LearningRateDecay):
    """Linear warmup from `start_lr` to `end_lr` in `warmup_steps`, then `learning_rate`: a number, or another decay,
    which is called (and advances) during warmup too.

    Args:
        learning_rate (float|int|LearningRateDecay): the rate after warmup (TypeError otherwise).
        warmup_steps (int): number of warmup steps.
        start_lr, end_lr (float): the bounds; AssertionError unless end_lr > start_lr.
        begin, step, dtype: as of :class:`LearningRateDecay`.

    Examples:
        >>> from paddle.fluid.dygraph import LinearLrWarmup
        >>> rate = LinearLrWarmup(0.5, warmup_steps=4, start_lr=0.0, end_lr=1.0)
        >>> [rate().numpy().item() for _ in range(4)]
        [0.25, 0.5, 0.75, 0.5]
    """

    def __init__(
        self,
        learning_rate: Any,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        begin: int = 1,
        step: int = 1,
        dtype: str = "float32",
    ) -> None:
        super().__init__(begin, step, dtype)
        if not isinstance(learning_rate, (float, int, LearningRateDecay)):
            raise TypeError(f"learning_rate must be an int, a float or a LearningRateDecay, got {learning_rate}")
        assert end_lr > start_lr, f"warmup: end_lr must be above start_lr, got {end_lr} and {start_lr}"
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.start_lr = start_lr
        self.lr_ratio_before_warmup = (float(end_lr) - float(start_lr)) / float(warmup_steps)

    def step(self) -> Any:
        """The rate at the current step."""
        after = self.learning_rate
        if isinstance(after, LearningRateDecay):
            after = after()
        if self.step_num < self.warmup_steps:
            return self.lr_ratio_before_warmup * self.step_num + (0.0 if is_18() else self.start_lr)
        return after


class ReduceLROnPlateau(Plateau, LearningRateDecay):
    """Multiplies the rate by `decay_rate` if the loss passed to `step` has not improved for more than `patience`
    epochs.

    Args:
        learning_rate (float|int|Tensor): the initial rate (TypeError otherwise).
        mode (str): "min" or "max": whether a smaller or a larger loss is better.
        decay_rate (float): below 1.
        patience (int): number of epochs without improvement to tolerate.
        verbose (bool): print each reduction.
        threshold, threshold_mode: minimum improvement of the loss, relative to the best ("rel") or
            absolute ("abs").
        cooldown (int): epochs after a reduction in which the loss is ignored.
        min_lr (float): lower bound of the rate.
        eps (float): reductions not above this are skipped.
        dtype (str): float32 or float64.

    Raises ValueError for another mode or decay rate.

    Examples:
        >>> import paddle
        >>> from paddle.fluid.dygraph import ReduceLROnPlateau
        >>> rate = ReduceLROnPlateau(1.0, decay_rate=0.5, patience=1)
        >>> for loss in (3.0, 3.0, 3.0):
        ...     rate.step(paddle.to_tensor([loss]))
        >>> rate().numpy().item()
        0.5
    """

    _BEST = "best_loss"

    def __init__(
        self,
        learning_rate: Any,
        mode: str = "min",
        decay_rate: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        eps: float = 1e-8,
        dtype: str = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        self._watch(mode, decay_rate, threshold, threshold_mode, patience, cooldown, "decay_rate")
        if not isinstance(learning_rate, (float, int, Variable)):
            raise TypeError(
                f"ReduceLROnPlateau: learning_rate must be a float, int or Variable, got {type(learning_rate)}"
            )
        self.learning_rate = learning_rate
        self.decay_rate = self.create_lr_var(decay_rate)
        self.min_lr = self.create_lr_var(min_lr)
        self.verbose = verbose
        self.eps = eps
        self.epoch_num = 0

    def _state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best_loss", "num_bad_epochs", "epoch_num", "learning_rate"]

    def __call__(self) -> Any:
        """The rate, constant until `step` changes it."""
        if not isinstance(self.learning_rate, Variable):
            self.learning_rate = self.create_lr_var(self.learning_rate)
        return self.learning_rate

    def step(self, loss: Any) -> None:  # type: ignore[override]
        """Processes the loss of an epoch.

        Args:
            loss (Tensor): of the shape [1] (AssertionError otherwise; TypeError for another type).
        """
        if not isinstance(loss, Variable):
            raise TypeError(f"The type of 'loss' in 'ReduceLROnPlateau.step' must be Tensor, but is {type(loss)}.")
        assert list(loss.shape) == [1], (
            f"ReduceLROnPlateau: loss must have one element (fluid.layers.mean makes one), got shape {loss.shape}"
        )
        self.epoch_num += 1
        if not self._is_due(loss):
            return
        rate = _ops.elementwise_max(self.learning_rate * self.decay_rate, self.min_lr)
        if self.learning_rate - rate > self.eps:
            if self.verbose:
                old = self.learning_rate
                old = old.numpy()[0] if isinstance(old, Variable) else old
                print(f"Epoch {self.epoch_num}: reducing learning rate from {old} to {rate.numpy()[0]}.")
            self.learning_rate = rate
