"""fluid.layers.learning_rate_scheduler: learning rates computed by a static Program from a counter of its runs.

In dygraph mode each function returns the equivalent object of fluid.dygraph, for an optimizer of fluid.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.mode import in_static_mode
from paddle._programs.guards import default_main_program
from paddle._programs.variable import Variable
from paddle.fluid.lr_decay import decays, formulas

from . import control_flow, nn, tensor

__all__ = [
    "exponential_decay",
    "natural_exp_decay",
    "inverse_time_decay",
    "polynomial_decay",
    "piecewise_decay",
    "noam_decay",
    "cosine_decay",
    "linear_lr_warmup",
]


def _by_mode(decay: Callable[..., Any], append: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """In dygraph mode the object `decay()`; in static mode the rate that `append()` adds to the main Program."""
    mode.choose_static()
    if not in_static_mode():
        return decay(*arguments, **keywords)
    with default_main_program()._lr_schedule_guard():
        return append(*arguments, **keywords)


def _decay_step_counter(begin: int = 0):
    counter = nn.autoincreased_step_counter(counter_name="@LR_DECAY_COUNTER@", begin=begin, step=1)
    return tensor.cast(counter, "float32")


def _periodic(formula: Callable[..., Any]) -> Callable[..., Any]:
    def append(learning_rate, decay_steps, decay_rate, staircase):
        periods = _decay_step_counter() / decay_steps
        if staircase:
            periods = _ops.floor(periods)
        return formula(learning_rate, decay_rate, periods)

    return append


def _noam(d_model, warmup_steps, learning_rate):
    step = _decay_step_counter(1)
    return formulas.noam(learning_rate, d_model, step**-0.5, warmup_steps**-1.5 * step)


def noam_decay(d_model, warmup_steps, learning_rate=1.0):
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Args:
        d_model (int|Variable): width of the model.
        warmup_steps (int|Variable): number of warmup steps.
        learning_rate (float|Variable): a factor.
    """
    return _by_mode(decays.NoamDecay, _noam, d_model, warmup_steps, learning_rate=learning_rate)


def exponential_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    """learning_rate * decay_rate^(step / decay_steps).

    Args:
        learning_rate (float|Variable): the initial rate.
        decay_steps (int): steps per period.
        decay_rate (float): factor per period.
        staircase (bool): round down to whole periods.
    """
    append = _periodic(formulas.exponential)
    return _by_mode(decays.ExponentialDecay, append, learning_rate, decay_steps, decay_rate, staircase)


def natural_exp_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    """learning_rate * exp(-decay_rate * step / decay_steps); arguments as of :func:`exponential_decay`."""
    append = _periodic(formulas.natural_exp)
    return _by_mode(decays.NaturalExpDecay, append, learning_rate, decay_steps, decay_rate, staircase)


def inverse_time_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    """learning_rate / (1 + decay_rate * step / decay_steps); arguments as of :func:`exponential_decay`."""
    append = _periodic(formulas.inverse_time)
    return _by_mode(decays.InverseTimeDecay, append, learning_rate, decay_steps, decay_rate, staircase)


def _polynomial(learning_rate, decay_steps, end_learning_rate, power, cycle):
    step = _decay_step_counter()
    if cycle:
        # ceil(step / decay_steps), at least one
        periods = _ops.floor(step / float(-decay_steps)) * -1.0
        one = tensor.fill_constant([1], "float32", 1.0)
        decay_steps = decay_steps * _ops.elementwise_max(periods, one)
    else:
        step = _ops.elementwise_min(step, tensor.fill_constant([1], "float32", float(decay_steps)))
    return formulas.polynomial(learning_rate, step, decay_steps, end_learning_rate, power)


def polynomial_decay(learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False):
    """(learning_rate - end) * (1 - step / decay_steps)^power + end; constant after `decay_steps`.

    Args:
        learning_rate (float|Variable): the initial rate.
        decay_steps (int): step at which the final rate is reached.
        end_learning_rate (float): the final rate.
        power (float): the exponent.
        cycle (bool): restart, over a multiple of `decay_steps`.
    """
    return _by_mode(decays.PolynomialDecay, _polynomial, learning_rate, decay_steps, end_learning_rate, power, cycle)


def _piecewise(boundaries, values):
    if len(values) - len(boundaries) != 1:
        raise ValueError("piecewise_decay: values must have one entry more than boundaries")
    step = _decay_step_counter()
    rate = tensor.create_global_var([1], 0.0, "float32", persistable=True, name="learning_rate")
    with control_flow.Switch() as switch:
        for boundary, value in zip(boundaries, values, strict=False):
            limit = tensor.fill_constant([1], "float32", float(boundary), force_cpu=True)
            with switch.case(step < limit):
                tensor.fill_constant([1], "float32", float(value), out=rate)
        with switch.default():
            tensor.fill_constant([1], "float32", float(values[-1]), out=rate)
    return rate


def piecewise_decay(boundaries, values):
    """values[i] while the step is below boundaries[i], the last value afterwards.

    Args:
        boundaries (list|tuple of int): ascending steps.
        values (list|tuple of float): one more than boundaries.

    Raises:
        ValueError: for another number of values.
    """
    return _by_mode(partial(decays.PiecewiseDecay, begin=0), _piecewise, boundaries, values)


def _cosine(learning_rate, step_each_epoch, epochs):
    epoch = _ops.floor(_decay_step_counter() / step_each_epoch)
    return formulas.cosine(learning_rate, epoch, epochs)


def cosine_decay(learning_rate, step_each_epoch, epochs):
    """learning_rate * (cos(epoch * pi / epochs) + 1) / 2.

    Args:
        learning_rate (float|Variable): the initial rate.
        step_each_epoch (int): steps per epoch.
        epochs (int): number of epochs.
    """
    check_type(learning_rate, "learning_rate", (float, Variable), "cosine_decay")
    return _by_mode(decays.CosineDecay, _cosine, learning_rate, step_each_epoch, epochs)


def _warmup(learning_rate, warmup_steps, start_lr, end_lr):
    dtype = learning_rate.dtype if isinstance(learning_rate, Variable) else "float32"
    rate = tensor.create_global_var([1], 0.0, dtype, persistable=True, name="learning_rate_warmup")
    step = _decay_step_counter()
    with control_flow.Switch() as switch:
        with switch.case(step < warmup_steps):
            growth = (float(end_lr) - float(start_lr)) * (step / float(warmup_steps))
            tensor.assign(start_lr + growth, rate)
        with switch.default():
            if not isinstance(learning_rate, Variable):
                learning_rate = tensor.fill_constant([1], dtype, float(learning_rate))
            tensor.assign(learning_rate, rate)
    return rate


def linear_lr_warmup(learning_rate, warmup_steps, start_lr, end_lr):
    """Linear warmup from `start_lr` to `end_lr` in `warmup_steps`, then `learning_rate`.

    Args:
        learning_rate (float|Variable): the rate after warmup.
        warmup_steps (int): number of warmup steps.
        start_lr, end_lr (float): the bounds.
    """
    return _by_mode(decays.LinearLrWarmup, _warmup, learning_rate, warmup_steps, start_lr, end_lr)
