"""to_static and its companions."""

from __future__ import annotations

from typing import Any

from paddle.nn.layer.layers import Layer

from .static_function import StaticFunction, unwrap_decorators

__all__ = ["to_static", "declarative"]


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


declarative = to_static
