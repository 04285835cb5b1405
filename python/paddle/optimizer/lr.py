"""Learning rate schedulers: an optimizer reads the current rate, `step()` advances it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from paddle._basics.checks import check_positive
from paddle.optimizer.lr_scheduler import (
    LRScheduler,
    Plateau,
    _is_tensor,
    check_factor,
    check_milestones,
    check_step_size,
)

__all__ = [
    "LRScheduler",
    "NoamDecay",
    "PiecewiseDecay",
    "NaturalExpDecay",
    "InverseTimeDecay",
    "PolynomialDecay",
    "LinearWarmup",
    "ExponentialDecay",
    "MultiStepDecay",
    "StepDecay",
    "LambdaDecay",
    "ReduceOnPlateau",
    "CosineAnnealingDecay",
]


class NoamDecay(LRScheduler):
    """Linear warmup over `warmup_steps`, then decay with the inverse square root ("Attention is all you need"):
    learning_rate * d_model**-0.5 * min(epoch**-0.5, epoch * warmup_steps**-1.5).

    Examples:
        >>> from paddle.optimizer.lr import NoamDecay
        >>> rate = NoamDecay(d_model=4, warmup_steps=4, last_epoch=3)
        >>> rate()
        0.25
    """

    def __init__(
        self,
        d_model: float,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        check_positive("NoamDecay", d_model=d_model, warmup_steps=warmup_steps)
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        falling = 1 if self.last_epoch == 0 else self.last_epoch**-0.5
        rising = self.warmup_steps**-1.5 * self.last_epoch
        return self.base_lr * (self.d_model**-0.5) * min(falling, rising)


class PiecewiseDecay(LRScheduler):
    """values[i] before epoch boundaries[i], the last of `values` after all `boundaries`.

    Examples:
        >>> from paddle.optimizer.lr import PiecewiseDecay
        >>> PiecewiseDecay(boundaries=[3, 6], values=[0.1, 0.2, 0.3], last_epoch=3)()
        0.2
    """

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.boundaries = boundaries
        self.values = values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        for boundary, value in zip(self.boundaries, self.values, strict=False):
            if self.last_epoch < boundary:
                return value
        return self.values[len(self.values) - 1]


class _GammaDecay(LRScheduler):
    """Base of decays by `gamma`."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)


class NaturalExpDecay(_GammaDecay):
    """learning_rate * exp(-gamma * epoch).

    Examples:
        >>> from paddle.optimizer.lr import NaturalExpDecay
        >>> NaturalExpDecay(0.5, gamma=0.1)()
        0.5
    """

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        return self.base_lr * math.exp(-1 * self.gamma * self.last_epoch)


class InverseTimeDecay(_GammaDecay):
    """learning_rate / (1 + gamma * epoch).

    Examples:
        >>> from paddle.optimizer.lr import InverseTimeDecay
        >>> InverseTimeDecay(0.5, gamma=1.0, last_epoch=0)()
        0.25
    """

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """Decays from `learning_rate` to `end_lr` over `decay_steps` with (1 - epoch / decay_steps)**power.

    With `cycle`, decay_steps is rounded up to the multiple that covers the epoch, so that the rate rises again;
    without, it stays at `end_lr`.

    Examples:
        >>> from paddle.optimizer.lr import PolynomialDecay
        >>> PolynomialDecay(1.0, decay_steps=4, end_lr=0.0, last_epoch=0)()
        0.75
    """

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        check_positive("PolynomialDecay", decay_steps=decay_steps)
        self.decay_steps = decay_steps
        self.end_lr = end_lr
        self.power = power
        self.cycle = cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        epoch: float = self.last_epoch
        steps: float = self.decay_steps
        if self.cycle:
            steps *= 1 if epoch == 0 else math.ceil(float(epoch) / float(steps))
        else:
            epoch = min(epoch, steps)
        left = (1 - float(epoch) / float(steps)) ** self.power
        return (self.base_lr - self.end_lr) * left + self.end_lr


class LinearWarmup(LRScheduler):
    """Rises linearly from `start_lr` to `end_lr` over `warmup_steps`, then is `learning_rate`: a number, or a scheduler
    that starts at its first epoch.

    TypeError for another `learning_rate`, AssertionError unless end_lr > start_lr.

    Examples:
        >>> from paddle.optimizer.lr import LinearWarmup
        >>> LinearWarmup(0.5, warmup_steps=4, start_lr=0.0, end_lr=1.0, last_epoch=0)()
        0.25
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(f"learning_rate must be an int, a float or an LRScheduler, got {learning_rate!s:.200}")
        self.learning_rate = learning_rate
        #: the epoch whose rate has been read from the inner scheduler, which is then one epoch ahead
        self._read_epoch: int | None = None
        self.warmup_steps = warmup_steps
        self.start_lr = start_lr
        self.end_lr = end_lr
        assert end_lr > start_lr, f"LinearWarmup: end_lr must be above start_lr, got {end_lr} and {start_lr}"
        super().__init__(start_lr, last_epoch, verbose)

    def state_dict(self) -> dict[str, Any]:
        """The values to save; those of a scheduler given as `learning_rate` under "LinearWarmup_LR"."""
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict()` returned."""
        if isinstance(self.learning_rate, LRScheduler):
            if "LinearWarmup_LR" not in state_dict:
                raise RuntimeError(
                    "set_state_dict: the state_dict has no 'LinearWarmup_LR'; does it belong to this scheduler?"
                )
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])
            state_dict = {key: value for key, value in state_dict.items() if key != "LinearWarmup_LR"}
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            self._read_epoch = None
            if self.last_epoch >= self.warmup_steps:
                self._read_epoch = self.last_epoch

    def step(self, epoch: int | None = None) -> None:
        """Advances to the next epoch, or to `epoch`; after the warmup the inner scheduler advances too."""
        self._read_epoch = None
        super().step(epoch)
        if isinstance(self.learning_rate, LRScheduler) and self.last_epoch >= self.warmup_steps:
            self.learning_rate.step()
            self._read_epoch = self.last_epoch

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`; unlike 2.0.2's it does not advance the inner scheduler."""
        if self.last_epoch < self.warmup_steps:
            rise = (self.end_lr - self.start_lr) * float(self.last_epoch) / float(self.warmup_steps)
            return rise + self.start_lr
        if self._read_epoch is not None and self._read_epoch == self.last_epoch:
            return self.last_lr
        return self.learning_rate() if isinstance(self.learning_rate, LRScheduler) else self.learning_rate


class ExponentialDecay(_GammaDecay):
    """learning_rate * gamma**epoch.

    Examples:
        >>> from paddle.optimizer.lr import ExponentialDecay
        >>> ExponentialDecay(1.0, gamma=0.5, last_epoch=1)()
        0.25
    """

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        return self.base_lr * (self.gamma**self.last_epoch)


class MultiStepDecay(LRScheduler):
    """learning_rate * gamma**(number of `milestones` reached).

    TypeError unless `milestones` is a tuple or list, ValueError unless they increase and gamma < 1.

    Examples:
        >>> from paddle.optimizer.lr import MultiStepDecay
        >>> MultiStepDecay(1.0, milestones=[2, 4], gamma=0.5, last_epoch=3)()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        milestones: tuple[int, ...] | list[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        check_milestones(milestones)
        check_factor("gamma", gamma)
        self.milestones = milestones
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        return self.base_lr * (self.gamma ** sum(self.last_epoch >= milestone for milestone in self.milestones))


class StepDecay(LRScheduler):
    """learning_rate * gamma**(epoch // step_size).

    TypeError unless `step_size` is an int, ValueError unless gamma < 1.

    Examples:
        >>> from paddle.optimizer.lr import StepDecay
        >>> StepDecay(1.0, step_size=2, gamma=0.5, last_epoch=3)()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        check_step_size(step_size)
        check_factor("gamma", gamma)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        return self.base_lr * (self.gamma ** (self.last_epoch // self.step_size))


class LambdaDecay(LRScheduler):
    """learning_rate * lr_lambda(epoch). TypeError unless `lr_lambda` is callable.

    Examples:
        >>> from paddle.optimizer.lr import LambdaDecay
        >>> LambdaDecay(0.5, lambda epoch: 0.5**epoch, last_epoch=0)()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not callable(lr_lambda):
            raise TypeError(f"LambdaDecay: lr_lambda must be callable, got {type(lr_lambda)}")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        return self.base_lr * self.lr_lambda(self.last_epoch)


class ReduceOnPlateau(Plateau, LRScheduler):
    """Multiplies the rate by `factor` when the metric passed to `step` has not improved for more than `patience`
    epochs.

    Args:
        learning_rate: float or int.
        mode: "min" or "max": whether a smaller or a larger metric is better.
        factor: below 1.
        patience: number of epochs without improvement that are tolerated.
        threshold, threshold_mode: the minimum improvement, relative to the best value ("rel") or absolute ("abs").
        cooldown: number of epochs after a reduction in which metrics are ignored.
        min_lr: lower bound of the rate.
        epsilon: reductions by no more than this are skipped.

    ValueError for another mode or factor, TypeError for another learning rate.

    Examples:
        >>> from paddle.optimizer.lr import ReduceOnPlateau
        >>> rate = ReduceOnPlateau(1.0, factor=0.5, patience=1)
        >>> for loss in (3.0, 3.0, 3.0):
        ...     rate.step(loss)
        >>> rate()
        0.5
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        self._watch(mode, factor, threshold, threshold_mode, patience, cooldown, "factor")
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"ReduceOnPlateau: learning_rate must be a float, got {type(learning_rate)}")
        self.factor = factor
        self.min_lr = min_lr
        self.epsilon = epsilon

        # Not the base's constructor: it calls step(), which requires a metric here.
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = 0
        self.verbose = verbose
        self._var_name = None

    def state_keys(self) -> None:
        """Sets the names of the attributes to save."""
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Processes the metric of the next epoch (or of `epoch`).

        Args:
            metrics: a number, or a Tensor or ndarray of shape [1] (AssertionError for another shape, TypeError for
                other types).
        """
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch

        if isinstance(metrics, np.ndarray) or _is_tensor(metrics):
            assert list(metrics.shape) == [1], (
                f"ReduceOnPlateau: metrics must have one element (paddle.mean makes one), got shape {metrics.shape}"
            )
        elif not isinstance(metrics, (int, float, np.float32, np.float64)):
            raise TypeError(
                f"ReduceOnPlateau: metrics must be an int, a float, a numpy.ndarray or a Tensor, got {type(metrics)}"
            )

        if self._is_due(metrics):
            new_lr = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - new_lr > self.epsilon:
                self.last_lr = new_lr
                self._report()


class CosineAnnealingDecay(LRScheduler):
    """Oscillates between `learning_rate` and `eta_min` along a cosine with a half period of `T_max` epochs.

    TypeError unless `T_max` is an int and `eta_min` a float or int.

    Examples:
        >>> from paddle.optimizer.lr import CosineAnnealingDecay
        >>> rate = CosineAnnealingDecay(0.5, T_max=2)
        >>> rate.step()
        >>> round(rate(), 6)
        0.25
    """

    def __init__(
        self, learning_rate: float, T_max: int, eta_min: float = 0, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(T_max, int):
            raise TypeError(f"CosineAnnealingDecay: T_max must be an int, got {type(T_max)}")
        check_positive("CosineAnnealingDecay", T_max=T_max)
        if not isinstance(eta_min, (float, int)):
            raise TypeError(f"CosineAnnealingDecay: eta_min must be a float or int, got {type(eta_min)}")
        self.T_max = T_max
        self.eta_min = float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`, computed from the previous one."""
        if self.last_epoch == 0:
            return self.base_lr
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The previous rate was eta_min: the quotient below would be 0 / 0.
            return self.last_lr + (self.base_lr - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return now / before * (self.last_lr - self.eta_min) + self.eta_min

    def _get_closed_form_lr(self) -> float:
        swing = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return self.eta_min + (self.base_lr - self.eta_min) * swing / 2
