"""Methods of Tensor and Variable that later versions of Paddle have; each is imported at its first use."""

from __future__ import annotations

from typing import Any

import paddle._core as core
from paddle._basics.later_names import ONLY_METHODS, TENSOR_METHODS
from paddle._basics.missing import load
from paddle._programs.variable import Variable

__all__: list[str] = []


class _Later:
    """A method that takes its own place with the function when it is first read."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def __get__(self, obj: Any, owner: type) -> Any:
        method: Any = load(self.source)
        if self.name == "T":
            method = property(method)
        for cls in (core.Tensor, Variable):
            if isinstance(vars(cls).get(self.name), _Later):
                setattr(cls, self.name, method)
        return method.__get__(obj, owner)


def patch_later_methods() -> None:
    """Add the methods, except those that a class has."""
    sources = {name: f"paddle:{name}" for name in TENSOR_METHODS.split()} | ONLY_METHODS
    for name, source in sources.items():
        for cls in (core.Tensor, Variable):
            if not hasattr(cls, name):
                setattr(cls, name, _Later(name, source))
