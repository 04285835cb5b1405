"""ModelAverage: means of parameters over a window of steps, in both modes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from paddle import _ops
from paddle._basics import mode
from paddle._basics.mode import in_static_mode
from paddle._programs.guards import default_main_program
from paddle.nn.layer_helper import LayerHelper
from paddle.optimizer import Optimizer
from paddle.optimizer.averaging import COUNTS, SUMS, Averaging
from paddle.optimizer.base import no_recording

__all__ = ["ModelAverage"]


class ModelAverage(Averaging, Optimizer):
    """Means of the parameters over a window of steps, for inference.

    The window is average_window_rate * the number of steps, but at least min_average_window and at most
    max_average_window; a full one starts again, and the last full one counts, too. In static mode it is made after the
    optimizer's `minimize`; in dygraph mode its `step` follows the optimizer's. See the API page of
    paddle.incubate.optimizer.ModelAverage.

    Args:
        average_window_rate: the window in relation to the number of steps.
        parameters: the Tensors to average; needed in dygraph mode (AttributeError), in static mode None takes all.
        min_average_window, max_average_window: the limits of the window.
        name: prefix of the names of the sums.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        >>> average = paddle.incubate.optimizer.ModelAverage(0.15, net.parameters(), 2, 10)
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> sgd.step()
        >>> average.step()
        >>> with average.apply():
        ...     pass  # parameters hold their means here
    """

    def __init__(
        self,
        average_window_rate: float,
        parameters: Any = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,
    ) -> None:
        super().__init__(0.0, parameters, None, None, name)
        self.helper = LayerHelper(type(self).__name__)
        self._set_window(average_window_rate, min_average_window, max_average_window)
        if not in_static_mode():
            return
        block = default_main_program().global_block()
        parameters = parameters if parameters else block.all_parameters()
        self._create_accumulators(block, parameters)
        for param in parameters:
            self._accumulate(param)
        pairs = [(param, self._get_accumulator("restore", param)) for param in parameters]
        self.apply_program, self.restore_program = self._swap_programs(pairs)

    def _create_accumulators(self, block: Any, parameters: list[Any]) -> None:
        for param in parameters:
            self._add_sums(param)
            self._add_accumulator("restore", param)

    def minimize(  # type: ignore[override]
        self, loss: Any, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> None:
        """In dygraph mode `step`; in static mode does nothing."""
        if not in_static_mode():
            self.step()

    @mode.dygraph_only
    def step(self) -> None:
        """Adds the parameters that have a gradient to their sums."""
        with no_recording():
            self._create_accumulators(None, self._parameter_list or [])
            for param, _ in self._gradients(self._parameter_list):
                self._accumulate(param)

    @contextlib.contextmanager
    def apply(self, executor: Any = None, need_restore: bool = True) -> Iterator[None]:
        """A context in which the parameters have their mean values.

        Args:
            executor: in static mode an Executor (RuntimeError otherwise), which runs the swap.
            need_restore: restores the values at the end; otherwise `restore` does.
        """
        if not in_static_mode():
            with no_recording():
                for param in self._parameter_list or []:
                    state = {name: self._get_accumulator(name, param) for name in SUMS + COUNTS[:2]}
                    _ops.assign(param, Out=self._get_accumulator("restore", param))
                    self._mean(state, param.dtype, Out=param)
        else:
            self._needed(executor).run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any = None) -> None:
        """Restores the parameters' values of before `apply`; static mode needs an Executor (RuntimeError)."""
        if in_static_mode():
            self._needed(executor).run(self.restore_program)
            return
        with no_recording():
            for param in self._parameter_list or []:
                _ops.assign(self._get_accumulator("restore", param), Out=param)

    @staticmethod
    def _needed(executor: Any) -> Any:
        if executor is None:
            raise RuntimeError("Executor should not be None in static graph mode.")
        return executor
