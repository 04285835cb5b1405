"""Modules as a script's modules see them: with the names that newer releases have removed."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import types
from typing import Any

from paddle._basics.removed_names import MODULES, by_module, modules

from . import changes

__all__ = ["import_for_script", "seen"]

_seen_as: dict[str, Any] = {}


class _Module(types.ModuleType):
    """A module with more names; everything else is read from and written to the module itself."""

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        module, rows = own["_paddle_legacy_module"], own["_paddle_legacy_rows"]
        row = rows.get(name)
        if row is not None and (row.changed or not _has(module, name)):
            return _restored(row)
        return seen(getattr(module, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "__dict__")["_paddle_legacy_module"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "__dict__")["_paddle_legacy_module"], name)

    def __dir__(self) -> list[str]:
        own = object.__getattribute__(self, "__dict__")
        return sorted({*dir(own["_paddle_legacy_module"]), *own["_paddle_legacy_rows"]})

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def _has(module: Any, name: str) -> bool:
    """Whether a module has a name, without numpy's warnings of names that are about to go."""
    if name in vars(module):
        return True
    if module.__name__ == "numpy":
        return False
    return hasattr(module, name)


def _restored(row: Any) -> Any:
    if not row.changed:
        changes.note(f"{row.module}.{row.name} is {row.source.replace(':', '.')} ({row.since})")
    return seen(row.value())


def seen(value: Any) -> Any:
    """`value`; a module of the table with its restored names."""
    if type(value) is not types.ModuleType:
        return value
    name = value.__name__
    if name not in modules() or name == "builtins":
        return value
    found = _seen_as.get(name)
    if found is None:
        found = _seen_as[name] = _Module(name, value.__doc__)
        own = object.__getattribute__(found, "__dict__")
        own["_paddle_legacy_module"], own["_paddle_legacy_rows"] = value, by_module().get(name, {})
    return found


def _replacement(name: str) -> str | None:
    """The module that stands for a module that is not installed."""
    if name in MODULES and importlib.util.find_spec(name.partition(".")[0]) is None:
        return MODULES[name]
    return None


def _substituted(name: str, fromlist: Any) -> Any:
    """The import of a module that is not there any more; None if it is, or has no replacement."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        replacement = _replacement(".".join(parts[:end]))
        if replacement is not None:
            break
    else:
        return None
    changes.note(f"the module {name} is {replacement}")
    found = importlib.import_module(replacement)
    if parts[0] == "six":
        sys.modules.setdefault("six", found)
        sys.modules.setdefault("six.moves", found)
        top, end = found, min(end, 2)
    else:
        top = found
    for part in parts[end:]:
        found = getattr(found, part)
    return found if fromlist else top


def import_for_script(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:  # noqa: A002
    """``__import__`` of a script's modules."""
    if level == 0:
        found = _substituted(name, fromlist)
        if found is not None:
            return seen(found)
    module = builtins.__import__(name, globals, locals, fromlist, level)
    return seen(module)
