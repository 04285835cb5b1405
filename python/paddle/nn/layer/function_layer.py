"""Base classes of layers without parameters, which store the arguments of a function and call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paddle.nn.layer.layers import Layer

__all__: list[str] = []


class FunctionLayer(Layer):
    """Base class: a subclass names the function and passes its arguments as keywords to `__init__`.

    The arguments are attributes (names prefixed with `_prefix`); assigning to them takes effect in the next call.
    """

    #: called with the inputs, then the arguments by name
    _function: Callable[..., Any]
    _prefix = "_"
    #: the arguments that `extra_repr` shows: all, and the name if there is one
    _shown: tuple[str, ...] | None = None
    #: attribute -> argument
    _names: Mapping[str, str] = {}

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments
        self._names = {self._prefix + name: name for name in arguments}
        for attribute, name in self._names.items():
            setattr(self, attribute, arguments[name])

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._names:
            self._arguments[self._names[name]] = value

    def extra_repr(self) -> str:
        """The arguments."""
        if self._shown is None:
            shown = {name: value for name, value in self._arguments.items() if name != "name" or value}
        else:
            shown = {name: value for name, value in self._arguments.items() if name in self._shown}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


class UnaryFunctionLayer(FunctionLayer):
    """A FunctionLayer of a function of one input."""

    def forward(self, x: Any) -> Any:
        """The function of `x`."""
        return self._function(x, **self._arguments)
