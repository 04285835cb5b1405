"""Dygraph mode: switching it on and off, recording of gradients, `grad`."""

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

# the tracer of the dygraph mode that the process starts in and goes back to
_default_tracer = Tracer()

# the names of static mode, while the process is in dygraph mode: each turn to dygraph mode numbers its names anew
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
        place (Place|str, optional): where they run from now on.
    """
    global _static_names
    if mode.in_static_mode():
        _static_names = unique_name.switch()
        _switch_tracer(_default_tracer)
    core.set_undecided(False)
    if place is not None:
        _set_expected_place(_get_paddle_place(place))


def enable_dygraph(place=None) -> None:
    """The name of `disable_static` in `fluid`."""
    disable_static(place)


def disable_dygraph() -> None:
    """The name of `enable_static` in `fluid`."""
    enable_static()


def enabled() -> bool:
    """Whether dygraph mode is on."""
    return not mode.in_static_mode()


@contextlib.contextmanager
def guard(place=None) -> Any:
    """Dygraph mode inside the ``with`` block, with Programs of its own for what is appended meanwhile.

    Names start anew: the parameters of a model that is made again get the names that a saved optimizer state has.

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
        # Tensors without a name are numbered anew, too.
        former = core.switch_tensor_names(0)
        try:
            yield
        finally:
            core.switch_tensor_names(former)


class _Switch:
    """Recording of gradients set for a ``with`` block, a function or a generator function."""

    enabled = False

    def __init__(self) -> None:
        # One object may be entered again before it is left.
        self._formers: list[bool] = []

    def __enter__(self):
        self._formers.append(_record(self.enabled))
        return self

    def __exit__(self, *error) -> None:
        _record(self._formers.pop())

    def __call__(self, func):
        import inspect  # what takes longest of what would come with the package

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
    """Inspection sees the signature of what is decorated, also where it does not follow wrappers."""
    import inspect

    with contextlib.suppress(ValueError, TypeError):  # those of some builtins cannot be told
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
    """`fluid.dygraph.no_grad`: a decorator as it stands, a context manager when called without a function."""
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
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, summed over the outputs.

    Args:
        outputs (Tensor|list|tuple): where backward starts.
        inputs (Tensor|list|tuple): what is differentiated by.
        grad_outputs (Tensor|list|tuple, optional): the gradient of each output; ones where None.
        retain_graph (bool, optional): keep what backward needs; by default as `create_graph`.
        create_graph (bool): record the computation, so that gradients can be differentiated again.
        only_inputs (bool): must be True.
        allow_unused (bool): give None for inputs that the outputs do not depend on instead of raising.
        no_grad_vars (Tensor|list|tuple|set, optional): gradients do not flow through these.

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
        # Those that stand on no recorded call (of a variable by itself), too.
        for g in found:
            if g is not None:
                g.stop_gradient = False
    return found


_switch_tracer(_default_tracer)
