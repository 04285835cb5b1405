"""Averages of parameters in Programs: ModelAverage and ExponentialMovingAverage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from paddle import _ops
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._programs.guards import default_main_program, program_guard
from paddle._programs.name_scope import name_scope
from paddle._programs.program import Program
from paddle.fluid.layers.nn import autoincreased_step_counter
from paddle.nn.layer_helper import LayerHelper
from paddle.optimizer.averaging import Averaging
from paddle.optimizer.base import global_var

from .base import Optimizer

__all__ = ["ExponentialMovingAverage", "ModelAverage"]


def _averaged(temporary: str) -> list[tuple[Any, Any]]:
    """The averaged parameters of the main Program, each with a variable for its backup."""
    pairs = []
    for param in default_main_program().global_block().all_parameters():
        if param.do_model_average is not False:
            name = unique_name.generate(temporary.format(param.name))
            kept = param.block.create_var(name=name, dtype=param.dtype, persistable=False, stop_gradient=True)
            pairs.append((param, kept))
    return pairs


class _Swapped:
    """Base: replaces the values of parameters temporarily, by two Programs."""

    apply_program: Program
    restore_program: Program

    @contextlib.contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """A context in which the parameters hold their averages.

        Args:
            executor: an Executor, which runs the swap.
            need_restore: restore the parameters' values at the end; otherwise call `restore`.
        """
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Restores the values from before `apply`."""
        executor.run(self.restore_program)


class ModelAverage(_Swapped, Averaging, Optimizer):
    """Averages of the parameters over a window of steps, for inference; construct it after the optimizer's `minimize`.

    The window is average_window_rate * the number of steps, but at least min_average_window and at most
    max_average_window; a full window starts again, and the last full one is included. Parameters with
    do_model_average=False (ParamAttr) are excluded. See the API page of fluid.optimizer.ModelAverage.

    Args:
        average_window_rate: the window in relation to the number of steps.
        min_average_window, max_average_window: its bounds.
        regularization, name: as of :class:`Optimizer`.

    Raises:
        Exception: in dygraph mode (paddle.incubate.ModelAverage supports both).

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 2], "float32")
        >>> loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
        >>> average = fluid.optimizer.ModelAverage(0.15, min_average_window=2, max_average_window=4)
        >>> exe = fluid.Executor()
        >>> _ = exe.run(fluid.default_startup_program())
        >>> _ = exe.run(feed={"x": np.ones((3, 2), "float32")})
        >>> with average.apply(exe):
        ...     pass  # parameters hold their means here
        >>> paddle.disable_static()
    """

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        regularization: Any = None,
        name: str | None = None,
    ) -> None:
        if not in_static_mode():
            raise Exception("In dygraph, don't support ModelAverage.")
        super().__init__(0.0, regularization=regularization, name=name)
        self._set_window(average_window_rate, min_average_window, max_average_window)
        self.params_grads = _averaged("{}.tmp")
        self.helper = LayerHelper("average_accumulate")
        for param, kept in self.params_grads:
            with param.block.program._optimized_guard([param, kept]), name_scope("move_average"):
                self._add_sums(param)
                self._accumulate(param)
        self.apply_program, self.restore_program = self._swap_programs(self.params_grads)


class ExponentialMovingAverage(_Swapped):
    """Exponential moving averages of the parameters: ema = decay * ema + (1 - decay) * param, with bias correction
    when it is applied. See the API page of fluid.optimizer.ExponentialMovingAverage.

    Args:
        decay: factor of the previous average.
        thres_steps: a Variable that counts steps: the factor is min(decay, (1 + steps) / (10 + steps)).
        name: prefix of the names of variables.

    Raises:
        Exception: in dygraph mode.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 2], "float32")
        >>> loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
        >>> ema = fluid.optimizer.ExponentialMovingAverage(0.9)
        >>> ema.update()
        >>> exe = fluid.Executor()
        >>> _ = exe.run(fluid.default_startup_program())
        >>> _ = exe.run(feed={"x": np.ones((3, 2), "float32")})
        >>> with ema.apply(exe):
        ...     pass  # parameters hold their means here
        >>> paddle.disable_static()
    """

    def __init__(self, decay: float = 0.999, thres_steps: Any = None, name: str | None = None) -> None:
        if not in_static_mode():
            raise Exception("In dygraph, don't support ExponentialMovingAverage.")
        self._decay = decay
        self._thres_steps = thres_steps
        self._name = name if name is not None else ""
        self._decay_var = self._get_ema_decay()
        self._step_counter_name = "@EMA_STEP_COUNTER@"
        self._params_tmps = _averaged(self._name + "{}.ema_tmp")
        self._ema_vars: dict[str, Any] = {}
        for param, kept in self._params_tmps:
            with param.block.program._optimized_guard([param, kept]), name_scope("moving_average"):
                ema_name = unique_name.generate(self._name + param.name + "_ema")
                self._ema_vars[param.name] = global_var(ema_name, list(param.shape), 0.0, param.dtype)
        self.apply_program, self.restore_program = Program(), Program()
        with program_guard(self.apply_program):
            self._append_apply(self.apply_program.global_block())
        with program_guard(self.restore_program):
            block = self.restore_program.global_block()
            for own, kept in self._params_tmps:
                _ops.assign(block._clone_variable(kept), Out=block._clone_variable(own))

    def _get_ema_decay(self) -> Any:
        """The variable of the decay; with `thres_steps`, operators set it in every run."""
        with default_main_program()._lr_schedule_guard():
            decay = global_var("scheduled_ema_decay_rate", [1], self._decay, "float32")
            if self._thres_steps is not None:
                steps = self._thres_steps
                steps = _ops.cast(steps, in_dtype=steps.dtype, out_dtype=VarType.FP32)
                scheduled = (steps + 1.0) / (steps + 10.0)
                most = _ops.fill_constant(shape=[1], dtype=VarType.FP32, value=self._decay)
                _ops.elementwise_min(scheduled, most, Out=decay)
        return decay

    def _append_apply(self, block: Any) -> None:
        step = global_var(self._step_counter_name, [1], 0, "int64")
        step = _ops.cast(step, in_dtype=step.dtype, out_dtype=VarType.FP32)
        power = _ops.elementwise_pow(block._clone_variable(self._decay_var), step)
        # Before the first step the power is 1, and there is no correction.
        left = 1.0 - power
        first = _ops.equal(left, _ops.fill_constant(shape=[1], dtype=VarType.FP32, value=0.0))
        left = left + _ops.cast(first, in_dtype=first.dtype, out_dtype=VarType.FP32)
        for own, kept in self._params_tmps:
            ema = block._clone_variable(self._ema_vars[own.name])
            param, kept = block._clone_variable(own), block._clone_variable(kept)
            divisor = left
            if param.dtype != VarType.FP32:
                divisor = _ops.cast(left, in_dtype=left.dtype, out_dtype=param.dtype)
            _ops.assign(param, Out=kept)
            _ops.elementwise_div(ema, divisor, Out=param)

    def update(self) -> None:
        """Appends the operators that update the averages; call it once, after `minimize`."""
        autoincreased_step_counter(counter_name=self._step_counter_name)
        for param, kept in self._params_tmps:
            with param.block.program._optimized_guard([param, kept]), name_scope("moving_average"):
                ema, decay = self._ema_vars[param.name], self._decay_var
                if param.dtype != VarType.FP32:
                    decay = _ops.cast(decay, in_dtype=decay.dtype, out_dtype=param.dtype)
                _ops.assign(ema * decay + param * (1.0 - decay), Out=ema)
