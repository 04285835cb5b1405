"""A note on uncaught exceptions that ``python -m paddle.legacy`` would prevent.

The hook adds the note and calls the hook that was there before it.
"""

from __future__ import annotations

import sys
from typing import Any

from .removed_names import MODULES, by_module

__all__ = ["hint", "install"]

#: exception, words of its message, and what the installed release refuses
_MESSAGES = [
    ("TypeError", "only 0-dimensional arrays can be converted", "numpy {numpy} converts no array that has a dimension"),
    ("ValueError", "inhomogeneous shape", "numpy {numpy} makes no array of ragged sequences"),
    ("ValueError", "Object arrays cannot be loaded", "numpy {numpy} reads no pickled arrays without allow_pickle=True"),
    ("ValueError", "The binary mode of fromstring", "numpy {numpy} has no fromstring of bytes"),
    ("ValueError", "Unable to avoid copy", "numpy {numpy} has another copy=False"),
    ("ValueError", "invalid mode: 'U", "Python {python} has no mode U of files"),
    ("ValueError", "invalid mode: 'rU", "Python {python} has no mode U of files"),
    ("TypeError", "load() missing 1 required positional argument: 'Loader'", "PyYAML 6 has no default Loader"),
    ("UnicodeDecodeError", "'ascii' codec can't decode", "Python {python} decodes byte strings of Python 2's pickles"),
]
_installed = False
_former: Any = None


def _removed(error: BaseException) -> str | None:
    """What an error says of a module or a name that a newer release has removed."""
    name, row = getattr(error, "name", None), None
    if isinstance(error, ModuleNotFoundError):
        return f"the module {name} is not there any more" if name in MODULES else None
    if isinstance(error, (AttributeError, ImportError)):
        # "module 'm' has no attribute 'n'", "cannot import name 'n' from 'm'"
        words = str(error).split("'")[1:4:2]
        module, name = (words if isinstance(error, AttributeError) else words[::-1]) if len(words) == 2 else ("", "")
        row = by_module().get(module, {}).get(name)
    elif isinstance(error, NameError):
        row = by_module()["builtins"].get(name or "")
    return f"{row.module}.{row.name} was {row.since}" if row is not None else None


def hint(error: BaseException) -> str | None:
    """The note of an exception; None if the runner would not prevent it."""
    kind, text = type(error).__name__, str(error)
    for name, words, why in _MESSAGES:
        if kind == name and words in text:
            numpy = getattr(sys.modules.get("numpy"), "__version__", "")
            python = ".".join(map(str, sys.version_info[:2]))
            why = why.format(numpy=numpy, python=python)
            break
    else:
        found = _removed(error)
        if found is None:
            return None
        why = found
    return f"{why}; python -m paddle.legacy {sys.argv[0] if sys.argv and sys.argv[0] else 'SCRIPT.py'} runs this"


def _hook(kind: Any, error: Any, traceback: Any) -> None:
    try:
        text = None if getattr(sys.modules.get("paddle.legacy.runner"), "active", False) else hint(error)
        if text is not None and text not in getattr(error, "__notes__", ()):
            error.add_note(text)
    except Exception:  # the report of the script's own error comes first
        pass
    _former(kind, error, traceback)


def install() -> None:
    """Adds the hook; once."""
    global _installed, _former
    if not _installed:
        _installed, _former = True, sys.excepthook
        sys.excepthook = _hook
