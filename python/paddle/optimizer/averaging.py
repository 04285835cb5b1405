"""Averages of parameters over a window of steps: the base of ModelAverage in paddle.incubate and fluid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paddle import _ops
from paddle._programs.guards import program_guard
from paddle._programs.program import Program

from .base import OptimizerBase

__all__: list[str] = []

SUMS = ("sum_1", "sum_2", "sum_3")
COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")


class Averaging(OptimizerBase):
    """Sums of parameters, by the operator `average_accumulates`."""

    type = "average_accumulates"
    average_window: float
    min_average_window: int
    max_average_window: int

    def _set_window(self, rate: float, least: int, most: int) -> None:
        self.average_window, self.min_average_window, self.max_average_window = rate, least, most

    def _add_sums(self, param: Any) -> None:
        for name in SUMS:
            self._add_accumulator(name, param)
        for name in COUNTS:
            self._add_accumulator(name, param, dtype="int64", shape=[1])

    def _accumulate(self, param: Any) -> None:
        """Adds the parameter to its sums: immediately, or by an appended operator."""
        state = {name: self._get_accumulator(name, param) for name in SUMS + COUNTS}
        _ops.average_accumulates(
            param,
            **{"in_" + name: var for name, var in state.items()},
            **{"out_" + name: var for name, var in state.items()},
            average_window=self.average_window,
            min_average_window=self.min_average_window,
            max_average_window=self.max_average_window,
        )

    @staticmethod
    def _mean(state: dict[str, Any], dtype: Any, **out: Any) -> Any:
        total = _ops.sum([state[name] for name in SUMS])
        count = _ops.sum([state[name] for name in COUNTS[:2]])
        count = _ops.cast(count, in_dtype=count.dtype, out_dtype=dtype)
        return _ops.elementwise_div(total, count, **out)

    def _swap_programs(self, pairs: Iterable[tuple[Any, Any]]) -> tuple[Program, Program]:
        """For pairs of a parameter and a backup variable: a Program that assigns the averages to the parameters, and
        one that restores their values."""
        pairs = list(pairs)
        apply, restore = Program(), Program()
        with program_guard(apply):
            block = apply.global_block()
            for own, kept in pairs:
                state = {name: block._clone_variable(self._get_accumulator(name, own)) for name in SUMS + COUNTS[:2]}
                param, kept = block._clone_variable(own), block._clone_variable(kept)
                _ops.assign(param, Out=kept)
                self._mean(state, own.dtype, Out=param)
        with program_guard(restore):
            block = restore.global_block()
            for own, kept in pairs:
                _ops.assign(block._clone_variable(kept), Out=block._clone_variable(own))
        return apply, restore
