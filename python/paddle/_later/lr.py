"""Learning rate schedulers of `paddle.optimizer.lr` in Paddle 2.1 to 2.6."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from paddle.optimizer.lr_scheduler import LRScheduler

__all__: list[str] = []


class LinearLR(LRScheduler):
    """A factor that changes linearly from `start_factor` to `end_factor` in `total_steps` steps.

    Examples:
        >>> import paddle
        >>> rate = paddle.optimizer.lr.LinearLR(0.3, 4)
        >>> rate.step(2)
        >>> round(rate(), 4)
        0.2
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor must be in (0, 1], got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be in [0, 1], got {end_factor}")
        if total_steps <= 0:
            raise ValueError(f"LinearLR: total_steps must be above 0, got {total_steps}")
        self.total_steps, self.start_factor, self.end_factor = total_steps, start_factor, end_factor
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        done = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * done)


class MultiplicativeDecay(LRScheduler):
    """The rate of the last epoch times lr_lambda(epoch).

    Examples:
        >>> import paddle
        >>> rate = paddle.optimizer.lr.MultiplicativeDecay(0.5, lambda epoch: 0.5)
        >>> rate.step()
        >>> rate()
        0.25
    """

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not callable(lr_lambda):
            raise TypeError(f"MultiplicativeDecay: lr_lambda must be callable, got {type(lr_lambda).__name__}")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        return self.base_lr * math.prod(self.lr_lambda(epoch) for epoch in range(1, self.last_epoch + 1))


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from the rate to `eta_min`; the first takes T_0 epochs, each next one T_mult times as many.

    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts".

    Examples:
        >>> import paddle
        >>> rate = paddle.optimizer.lr.CosineAnnealingWarmRestarts(1.0, T_0=2)
        >>> [rate.step() or round(rate(), 4) for _ in range(3)]
        [0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        learning_rate: float,
        T_0: int,  # noqa: N803 (Paddle's name)
        T_mult: int = 1,  # noqa: N803 (Paddle's name)
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 must be an int above 0, got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"CosineAnnealingWarmRestarts: T_mult must be an int of at least 1, got {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        period, start = self.T_0, 0
        while self.last_epoch >= start + period:
            start, period = start + period, period * self.T_mult
        phase = (self.last_epoch - start) / period
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * phase)) / 2


class OneCycleLR(LRScheduler):
    """Up from max / divide_factor to `max_learning_rate`, then down to `end_learning_rate`, within `total_steps`.

    Args:
        phase_pct (float): the share of the way up.
        anneal_strategy (str): "cos" or "linear".
        three_phase (bool): down to the first rate as fast as up, then to the last.

    Source: Smith and Topin, "Super-Convergence".

    Examples:
        >>> import paddle
        >>> rate = paddle.optimizer.lr.OneCycleLR(1.0, 10, anneal_strategy="linear")
        >>> rate.step(2)
        >>> rate()
        1.0
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"OneCycleLR: total_steps must be an int above 0, got {total_steps}")
        if not 0 <= phase_pct <= 1:
            raise ValueError(f"OneCycleLR: phase_pct must be in [0, 1], got {phase_pct}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be cos or linear, got {anneal_strategy!r}")
        first = max_learning_rate / float(divide_factor)
        up = float(phase_pct * total_steps) - 1
        if three_phase:
            if phase_pct >= 0.5:
                raise ValueError(f"OneCycleLR: with three_phase phase_pct must be below 0.5, got {phase_pct}")
            self._ends = [0.0, up, float(2 * phase_pct * total_steps) - 2, total_steps - 1]
            self._rates = [first, max_learning_rate, first, end_learning_rate]
        else:
            self._ends = [0.0, up, total_steps - 1]
            self._rates = [first, max_learning_rate, end_learning_rate]
        self.total_steps, self._cosine = total_steps, anneal_strategy == "cos"
        super().__init__(first, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} is beyond the {self.total_steps} steps of the cycle")
        for i in range(1, len(self._ends)):
            if step <= self._ends[i] or i == len(self._ends) - 1:
                share = (step - self._ends[i - 1]) / (self._ends[i] - self._ends[i - 1])
                share = (1 - math.cos(math.pi * share)) / 2 if self._cosine else share
                return self._rates[i - 1] + (self._rates[i] - self._rates[i - 1]) * share
        raise AssertionError("unreachable: the last phase takes every step")


class CyclicLR(LRScheduler):
    """Up from the base rate to `max_learning_rate` and down again, in cycles.

    Args:
        step_size_up (int): steps of the way up. step_size_down (int, optional): of the way down; by default as many.
        mode (str): "triangular", "triangular2" (each cycle half as high), "exp_range" (by exp_gamma ** step).
        scale_fn (callable, optional): in place of the mode; of the cycle's number or of the step (`scale_mode`).

    Source: Smith, "Cyclical Learning Rates for Training Neural Networks".

    Examples:
        >>> import paddle
        >>> rate = paddle.optimizer.lr.CyclicLR(0.1, 0.5, step_size_up=2)
        >>> [rate.step() or round(rate(), 4) for _ in range(4)]
        [0.3, 0.5, 0.3, 0.1]
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[Any], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        modes: dict[str, tuple[Callable[[Any], float], str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 0.5 ** (cycle - 1), "cycle"),
            "exp_range": (lambda step: exp_gamma**step, "iterations"),
        }
        if scale_fn is None and mode not in modes:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(modes)}, got {mode!r}")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"CyclicLR: scale_mode must be cycle or iterations, got {scale_mode!r}")
        if step_size_up <= 0 or (step_size_down is not None and step_size_down <= 0):
            raise ValueError(f"CyclicLR: steps must be above 0, got {step_size_up} and {step_size_down}")
        self._up, self._down = step_size_up, step_size_up if step_size_down is None else step_size_down
        self._height = max_learning_rate - base_learning_rate
        self._scale, self._by = modes[mode] if scale_fn is None else (scale_fn, scale_mode)
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`."""
        cycle, place = divmod(self.last_epoch, self._up + self._down)
        share = place / self._up if place <= self._up else (self._up + self._down - place) / self._down
        scale = self._scale(cycle + 1 if self._by == "cycle" else self.last_epoch)
        return self.base_lr + self._height * share * scale
