"""The Tracer: the object through which dygraph mode runs operators."""

from __future__ import annotations

import threading

import paddle._core as core

from . import autocast, mode, unique_name
from .eager import run_eager

__all__: list[str] = []


class _Recording(threading.local):
    """Whether calls are recorded for backward; thread-local, as in the core."""

    on = True


class Tracer:
    """Runs operators in dygraph mode.

    The flags that eager calls read are in the core; this object is their Python interface.
    """

    #: the class of `_get_program_desc_tracer`, set by `paddle.jit`
    program_desc_tracer: type | None = None

    def __init__(self) -> None:
        self._recording = _Recording()
        self._train_mode = True
        self._place = None

    @property
    def _has_grad(self) -> bool:
        return self._recording.on

    @_has_grad.setter
    def _has_grad(self, value: bool) -> None:
        self._recording.on = bool(value)
        if mode._dygraph_tracer() is self:
            core.set_grad_enabled(bool(value))

    @property
    def _expected_place(self):
        return self._place if self._place is not None else mode._current_expected_place()

    @_expected_place.setter
    def _expected_place(self, place) -> None:
        self._place = place

    @property
    def _enable_autocast(self) -> bool:
        return autocast.low() is not None

    @_enable_autocast.setter
    def _enable_autocast(self, value) -> None:
        autocast.switch(autocast.current()._replace(dtype=(autocast.low() or "float16") if value else None))

    def _get_amp_op_list(self) -> tuple[set[str], set[str]]:
        """The white list and the black list."""
        state = autocast.current()
        return set(state.white), set(state.black)

    def _set_amp_op_list(self, white_list, black_list) -> None:
        autocast.switch(autocast.current()._replace(white=frozenset(white_list), black=frozenset(black_list)))

    def _get_program_desc_tracer(self):
        """The object that makes a ProgramDesc of the calls within `program_desc_tracing_guard`."""
        assert self.program_desc_tracer is not None, "paddle.jit is not imported"
        return self.program_desc_tracer()

    def train_mode(self) -> None:
        self._train_mode = True

    def eval_mode(self) -> None:
        self._train_mode = False

    def _generate_unique_name(self, key: str = "dygraph_tmp") -> str:
        return unique_name.generate(key)

    def trace(self, type: str, ins, outs, attrs, place, trace_backward: bool) -> None:  # noqa: A002
        """As `trace_op`; `trace_backward` says whether the call is recorded. It runs at the operands' place."""
        run_eager(type, ins, outs, attrs, not trace_backward)

    def trace_op(self, type: str, inputs, outputs, attrs, stop_gradient: bool = False) -> None:
        """Run the operator `type`, writing to the tensors in `outputs`."""
        run_eager(type, inputs, outputs, attrs, stop_gradient)
