"""Dygraph mode: switching the mode, recording of gradients, and `grad`."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics.mode import _dygraph_guard, _get_paddle_place, _set_expected_place, _switch_tracer
from paddle._basics.tracer import Tracer
from paddle._programs.guards import program_guard_unchecked
from paddle._programs.program import Program

__all__: list[str] = []

# the tracer outside of `guard`
_default_tracer = Tracer()

# the name generator of static mode while dygraph mode is on: dygraph mode starts with a new one each time
_static_names: tuple = ()


def in_dynamic_mode() -> bool:
    """Whether operators run at once (dygraph mode, the default) or are appended to a Program.

    Examples:
        >>> import paddle
        >>> paddle.in_dynamic_mode()
        True
    """
    return not mode.in_static_mode()


def enable_static() -> None:
    """Turn static mode on: operators are appended to the default main Program.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> paddle.in_dynamic_mode()
        False
        >>> paddle.disable_static()
    """
    global _static_names
    if not mode.in_static_mode():
        unique_name.switch(*_static_names)
        _static_names = ()
    _switch_tracer(None)


def disable_static(place=None) -> None:
    """Turn dygraph mode on: operators run at once.

    Args:
        place (Place|str, optional): the device of operators from now on.
    """
    global _static_names
    if mode.in_static_mode():
        _static_names = unique_name.switch()
        _switch_tracer(_default_tracer)
    core.set_undecided(False)
    if place is not None:
        _set_expected_place(_get_paddle_place(place))


def enable_dygraph(place=None) -> None:
    """`disable_static` under its name in `fluid`."""
    disable_static(place)


def disable_dygraph() -> None:
    """`enable_static` under its name in `fluid`."""
    enable_static()


def enabled() -> bool:
    """Whether dygraph mode is on."""
    return not mode.in_static_mode()


@contextlib.contextmanager
def guard(place=None) -> Any:
    """Dygraph mode in the ``with`` block, with new default Programs.

    Numbering of names starts at 0, so that a model constructed again has the parameter names of a saved state.

    Args:
        place (Place|str, optional): where operators run.
    """
    where = _get_paddle_place(place) if place is not None else mode._current_expected_place()
    with (
        program_guard_unchecked(Program(), Program()),
        unique_name.guard(),
        mode._dygraph_place_guard(where),
        _dygraph_guard(Tracer()),
    ):
        # numbering of unnamed Tensors starts at 0
        former = core.switch_tensor_names(0)
        try:
            yield
        finally:
            core.switch_tensor_names(former)


class _Switch:
    """Base of context managers and decorators that set the recording of gradients."""

    enabled = False

    def __init__(self) -> None:
        # a stack: one object may be entered several times
        self._formers: list[bool] = []

    def __enter__(self):
        self._formers.append(_record(self.enabled))
        return self

    def __exit__(self, *error) -> None:
        _record(self._formers.pop())

    def __call__(self, func):
        import inspect  # takes long to import, and only decorators need it

        if inspect.isgeneratorfunction(func):
            return _guarded_generator(type(self), func)

        @functools.wraps(func)
        def guarded(*args, **kwargs):
            former = _record(self.enabled)
            try:
                return func(*args, **kwargs)
            finally:
                _record(former)

        _as_signed(guarded, func)
        return guarded


def _as_signed(wrapper, func) -> None:
    """Set the signature of the decorated function, for tools that do not follow `__wrapped__`."""
    import inspect

    with contextlib.suppress(ValueError, TypeError):  # some builtins have no signature
        wrapper.__signature__ = inspect.signature(func)


def _record(enabled: bool) -> bool:
    tracer = mode._dygraph_tracer()
    if tracer is not None:
        tracer._recording.on = enabled
    return core.set_grad_enabled(enabled)


def _guarded_generator(switch, func):
    @functools.wraps(func)
    def guarded(*args, **kwargs):
        generator = func(*args, **kwargs)
        step, value = generator.send, None
        while True:
            with switch():
                try:
                    item = step(value)
                except StopIteration as stop:
                    return stop.value
            try:
                step, value = generator.send, (yield item)
            except GeneratorExit:
                with switch():
                    generator.close()
                raise
            except BaseException as error:
                step, value = generator.throw, error

    return guarded


class no_grad_(_Switch):
    """No gradients are recorded: a context manager, and a decorator of functions and generators.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([1.0], stop_gradient=False)
        >>> with paddle.no_grad():
        ...     y = x * 2
        >>> y.stop_gradient
        True
        >>> @paddle.no_grad()
        ... def double(x):
        ...     return x * 2
        >>> double(x).stop_gradient
        True
    """

    enabled = False


def no_grad(func=None) -> Any:
    """`fluid.dygraph.no_grad`: a decorator; without a function, a context manager."""
    return no_grad_() if func is None else no_grad_()(func)


def _listed(value, name: str, kind=core.Tensor) -> list:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    for v in values:
        if not isinstance(v, kind):
            raise AssertionError(f"{name} must be a Tensor or a list of Tensors, got {type(v).__name__}")
    return values


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=False,
    no_grad_vars=None,
    backward_strategy=None,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, summed over the outputs.

    Args:
        outputs (Tensor|list|tuple): where backward starts.
        inputs (Tensor|list|tuple): the variables of differentiation.
        grad_outputs (Tensor|list|tuple, optional): the gradient of each output; ones where None.
        retain_graph (bool, optional): keep what backward needs; by default as `create_graph`.
        create_graph (bool): record the computation, so that gradients can be differentiated again.
        only_inputs (bool): must be True.
        allow_unused (bool): return None for inputs that the outputs do not depend on, instead of raising.
        no_grad_vars (Tensor|list|tuple|set, optional): gradients do not flow through these.
        backward_strategy: an argument of 1.x, without effect.

    Returns:
        list of Tensor: one for each input.

    Raises:
        ValueError: when an input is not reachable and `allow_unused` is False.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([3.0], stop_gradient=False)
        >>> y = x * x
        >>> dx, = paddle.grad([y], [x], create_graph=True)
        >>> float(dx)
        6.0
        >>> float(paddle.grad([dx], [x])[0])
        2.0
    """
    if mode.in_static_mode():
        raise AssertionError("paddle.grad works in dynamic graph mode only; use paddle.static.gradients in static mode")
    outputs, inputs = _listed(outputs, "outputs"), _listed(inputs, "inputs")
    if grad_outputs is None:
        grad_outputs = []
    else:
        grad_outputs = list(grad_outputs) if isinstance(grad_outputs, (list, tuple)) else [grad_outputs]
        for g in grad_outputs:
            if g is not None and not isinstance(g, core.Tensor):
                raise AssertionError("grad_outputs must be None, a Tensor, or a list of these")
        if len(grad_outputs) != len(outputs):
            raise AssertionError("grad: grad_outputs must have one entry for each of outputs")
    if no_grad_vars is None:
        no_grad_vars = []
    elif isinstance(no_grad_vars, core.Tensor):
        no_grad_vars = [no_grad_vars]
    elif isinstance(no_grad_vars, (list, tuple, set)):
        no_grad_vars = list(no_grad_vars)
    else:
        raise AssertionError("no_grad_vars must be None, a Tensor, or a list, tuple or set of these")
    for v in no_grad_vars:
        if not isinstance(v, core.Tensor):
            raise AssertionError("no_grad_vars can only contains Tensor")
    if not isinstance(create_graph, bool):
        raise AssertionError("create_graph: a bool is expected")
    if retain_graph is None:
        retain_graph = create_graph
    if not isinstance(retain_graph, bool):
        raise AssertionError("retain_graph must be a bool or None")
    if not isinstance(allow_unused, bool) or not isinstance(only_inputs, bool):
        raise AssertionError("allow_unused and only_inputs must be True or False")
    if not only_inputs:
        raise AssertionError("grad: only_inputs must be True")
    found = core.partial_grad(outputs, inputs, grad_outputs, no_grad_vars, retain_graph, create_graph, allow_unused)
    if create_graph:
        # also gradients that no recorded call computed, such as of a variable by itself
        for g in found:
            if g is not None:
                g.stop_gradient = False
    return found


_switch_tracer(_default_tracer)
