"""to_static and its companions."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from paddle._basics import mode
from paddle._programs.guards import default_main_program
from paddle.nn.layer.layers import Layer

from .builder import appending_to
from .dy2static.convert_call_func import CONVERSION_OPTIONS, ConversionOptions
from .program_translator import ProgramTranslator
from .static_function import StaticFunction
from .wrapped import unwrap_decorators

__all__ = ["to_static", "declarative", "not_to_static", "dygraph_to_static_func"]


def to_static(function: Any = None, input_spec: Any = None) -> Any:
    """Run a function, a method or a Layer's forward as a Program.

    Args:
        function (callable|Layer, optional): the function; a Layer's `forward` is replaced, and the Layer is returned.
            Without it a decorator is returned.
        input_spec (list|tuple, optional): InputSpecs (or nests of these) of the first arguments; sizes that are None
            may differ between calls of one Program.

    Returns:
        a StaticFunction, the Layer, or a decorator.

    Raises:
        TypeError: when `input_spec` is no list or tuple. ValueError: when a leaf of it is no InputSpec.

    Examples:
        >>> import paddle
        >>> @paddle.jit.to_static
        ... def double(x):
        ...     return x * 2
        >>> double(paddle.ones([2])).numpy().tolist()
        [2.0, 2.0]
    """

    def decorated(target: Any) -> Any:
        if isinstance(target, Layer):
            if isinstance(target.forward, StaticFunction):
                _, forward = unwrap_decorators(target.forward)
            else:
                forward = target.forward
            target.forward = StaticFunction(forward, input_spec)  # type: ignore[method-assign]
            return target
        _, inner = unwrap_decorators(target)
        return StaticFunction(inner, input_spec)

    return decorated if function is None else decorated(function)


def declarative(func: Any = None, input_spec: Any = None, function: Any = None) -> Any:
    """`to_static` under its name of 1.8.

    Args:
        func (callable|Layer, optional): the function, 1.8's name of `function`.
        input_spec (list|tuple, optional): see `to_static`.
        function (callable|Layer, optional): the function, 2.0's name.

    Examples:
        >>> import paddle
        >>> @paddle.fluid.dygraph.declarative
        ... def double(x):
        ...     return x * 2
        >>> double(paddle.ones([2])).numpy().tolist()
        [2.0, 2.0]
    """
    return to_static(function if func is None else func, input_spec)


def not_to_static(func: Any = None) -> Any:
    """Leave a function as it is when translated functions call it: it runs once, while the Program is built.

    Args:
        func (callable, optional): the function; without it a decorator is returned.

    Examples:
        >>> import paddle
        >>> @paddle.jit.not_to_static
        ... def shift(x):
        ...     return x + 1
        >>> paddle.jit.to_static(lambda x: shift(x) * 2)(paddle.ones([1])).item()
        4.0
    """
    if func is None:
        return not_to_static
    setattr(func, CONVERSION_OPTIONS, ConversionOptions(not_convert=True))
    return func


def dygraph_to_static_func(func: Any) -> Any:
    """A function that appends operators to the current Program, translated from dygraph code.

    Args:
        func (callable): the function. In dygraph mode, or after ProgramTranslator.enable(False), it is called as it is.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> @fluid.dygraph.dygraph_to_static_func
        ... def step(x):
        ...     if paddle.mean(x) < 0:
        ...         x = x - 1
        ...     else:
        ...         x = x + 1
        ...     return x
        >>> y = step(paddle.full([2], 0.0))
        >>> paddle.static.Executor().run(fetch_list=[y])[0].tolist()
        [1.0, 1.0]
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        translator = ProgramTranslator()
        if not mode.in_static_mode() or not translator.enable_to_static:
            warnings.warn(
                "dygraph_to_static_func has no effect in dygraph mode, or after ProgramTranslator.enable(False): the "
                "function is called as it is",
                stacklevel=2,
            )
            return func(*args, **kwargs)
        with appending_to(default_main_program()):
            return translator.get_func(func)(*args, **kwargs)

    return call
