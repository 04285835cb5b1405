"""Names that a module resolves on first use, and the errors for names that this package does not have."""

from __future__ import annotations

import importlib
import importlib.util
import opcode
import sys
import types
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from typing import Any, NoReturn

from paddle._basics import internal_names
from paddle._basics.legacy_names import entry

__all__ = ["OperatorMissing", "absent", "getter", "load", "require"]

_IMPORT_FROM = opcode.opmap.get("IMPORT_FROM")


class OperatorMissing(NotImplementedError, AttributeError):
    """An operator, or a function or layer that needs it, is not implemented.

    It is an AttributeError too, so that ``hasattr`` returns False for such a name.
    """


def require(what: str, operator: str) -> NoReturn:
    """Raises OperatorMissing: `what` needs `operator`."""
    raise OperatorMissing(f"{what} needs the operator {operator!r}, which is not implemented yet")


def absent(module: str, name: str) -> NoReturn:
    """Raises AttributeError: `module` has no `name`, with the reason where one is known."""
    # Without `obj`, for which Python would add a suggestion of its own.
    raise AttributeError(f"module {module!r} has no attribute {name!r}{_hint(module, name)}", name=name)


def _hint(module: str, name: str) -> str:
    """The reason why a name is missing; nothing for the private names that Python and its tools look for."""
    if name.startswith("__"):
        return ""
    from paddle._basics.internal_reasons import reason
    from paddle._basics.unavailable_names import hint

    why = reason(module, name)
    if why is not None or name.startswith("_"):
        return f"; it is internal to Paddle 2.0.2: {why}" if why is not None else ""

    return hint(module, name, dir(sys.modules[module]) if module in sys.modules else [])


def _is_later(module: str) -> bool:
    """Whether the module is Paddle's own, not one that a module of 2.0.2 imports by the same name."""
    from paddle._basics.unavailable_names import is_later_module

    return is_later_module(module)


def _is_import(frame: types.FrameType) -> bool:
    """Whether `frame` executes ``from module import name``, which drops the message of an AttributeError."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


def getter(module: str, later: Mapping[str, str] | None = None) -> Callable[[str], object]:
    """A module's ``__getattr__``: imports a name on first use, and raises as `absent` does for unknown names.

    A name is looked up in `later`, in the table of legacy names, and among the modules below `module`: upstream imports
    its whole package at once, so scripts use submodules as attributes without importing them. At last it is looked up
    among the names that upstream's modules import (`internal_names`).

    Args:
        module: the module's full name.
        later: name to "module:name"; or to a module that defines the name, or whose own last part is the name.
    """
    legacy = entry(module)
    sources = {**(legacy.names if legacy else {}), **(later or {})}

    def __getattr__(name: str) -> object:
        if name in sources:
            return _resolve(module, name, sources[name])
        if _has_module(module, name):
            return _resolve(module, name, f"{module}.{name}")
        if not name.startswith("__") and not _is_later(f"{module}.{name}"):
            source = internal_names.imported(module, name)
            if source is not None and importlib.util.find_spec(source.partition(":")[0]) is not None:
                return _resolve(module, name, source)
        if _is_import(sys._getframe(1)):
            raise ImportError(f"cannot import name {name!r} from {module!r}{_hint(module, name)}", name=module)
        absent(module, name)

    return __getattr__


def _has_module(package: str, name: str) -> bool:
    """Whether a public module `name` is below `package`, as a file or in the table of legacy names."""
    path = vars(sys.modules[package]).get("__path__")
    if path is None or name[:1] in ("", "_"):
        return False
    full = f"{package}.{name}"
    return entry(full) is not None or PathFinder.find_spec(full, path) is not None


def load(source: str) -> Any:
    """The object that "module:name" names."""
    module, _, name = source.partition(":")
    return getattr(importlib.import_module(module), name)


def _resolve(module: str, name: str, source: str) -> object:
    """Imports `name` of `module` from `source` (see `getter`) and stores it in `module`."""
    source, _, attribute = source.partition(":")
    found = importlib.import_module(source)
    if attribute:
        value = found if attribute == "." else getattr(found, attribute)
    else:
        value = found if source.rpartition(".")[2] == name else getattr(found, name)
    setattr(sys.modules[module], name, value)
    return value
