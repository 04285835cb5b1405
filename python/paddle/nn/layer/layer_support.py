"""Helpers of Layer: hook handles, name checks, the old argument `stat_dict`."""

from __future__ import annotations

import collections
import re
import weakref
from typing import Any

import paddle._core as core
from paddle._basics.old_arguments import takes_old_name
from paddle.tensor.creation import assign

NOT_INITIALISED = "super(YourLayer, self).__init__() should be called first"


def _convert_camel_to_snake(name: str) -> str:
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class HookRemoveHelper:
    """Handle of a registered hook: `remove()` unregisters it."""

    next_hook_id = 0

    def __init__(self, hooks: collections.OrderedDict[int, Any]) -> None:
        # Weak reference: a handle does not keep the layer alive.
        self._hooks_ref = weakref.ref(hooks)
        self._hook_id = HookRemoveHelper.next_hook_id
        HookRemoveHelper.next_hook_id += 1

    def remove(self) -> None:
        """Unregisters the hook; repeated calls have no effect."""
        hooks = self._hooks_ref()
        if hooks is not None:
            hooks.pop(self._hook_id, None)


def check_name(layer: Any, what: str, name: Any, store: str, missing: type[Exception]) -> None:
    """Checks that `name` can name a new parameter or buffer of the layer."""
    if store not in layer.__dict__:
        raise missing(NOT_INITIALISED)
    if not isinstance(name, str):
        raise TypeError(f"The name of {what} should be a string, but received {type(name).__name__}.")
    if "." in name:
        raise KeyError(f"The name of {what} can not contain `.`, because attribute lookup could not find it.")
    if name == "":
        raise KeyError(f"The name of {what} can not be empty.")


_takes_stat_dict = takes_old_name("state_dict", "stat_dict")


def _assign(value: Any, buffer: Any) -> Any:
    """The Variable of a buffer in a Program, with `value` assigned to it."""
    if buffer is None or type(buffer) is core.Tensor:
        return assign(value)
    assign(value, buffer)
    return buffer
