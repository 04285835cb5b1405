"""Runs a script as ``__main__``, with the names that its Python, numpy, Pillow and PyYAML had."""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
import types
from typing import Any

from . import changes, loader, rewrite

__all__ = ["explain", "run_module", "run_script"]

_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
active = False


def explain() -> None:
    """At exit the changes are written to stderr."""
    changes.start()
    atexit.register(lambda: sys.stderr.write(changes.report()))


def _main(path: str, spec: Any = None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    space = vars(module)
    space["__file__"], space["__spec__"], space["__cached__"] = path, spec, None
    if spec is not None:
        space["__package__"] = spec.parent
    loader.prepare(module)
    return module


def _execute(source: bytes, module: types.ModuleType, path: str) -> None:
    global active
    active = True
    loader.install()
    sys.modules["__main__"] = module
    try:
        exec(rewrite.compiled(source, path), vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        _forget_own_frames(error)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush()
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None


def _forget_own_frames(error: BaseException | None) -> None:
    """Removes this package's frames from the tracebacks of an exception and of those before it."""
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        error.__traceback__ = _without_own(error.__traceback__)
        error = error.__cause__ or error.__context__


def _without_own(traceback: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(_FOLDER) and file != "<frozen runpy>":
            kept.append(traceback)
        traceback = traceback.tb_next
    made: types.TracebackType | None = None
    for t in reversed(kept):
        made = types.TracebackType(made, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return made


def run_script(path: str, arguments: list[str]) -> None:
    """Runs the file `path` with ``sys.argv[1:] == arguments``.

    Raises:
        SystemExit: with the script's status; 1 after an exception, which is printed as Python prints it.
        OSError: if the file cannot be read.
    """
    with open(path, "rb") as file:
        source = file.read()
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    _execute(source, _main(path), path)


def run_module(name: str, arguments: list[str]) -> None:
    """Runs a module of the script's folder, as ``python -m name`` does.

    Raises:
        ImportError: if there is no such module, or it is an installed one.
    """
    loader.install()
    sys.path[0] = os.getcwd()
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None or not os.path.isfile(spec.origin):
        raise ImportError(f"No module named {name!r}", name=name)
    with open(spec.origin, "rb") as file:
        source = file.read()
    sys.argv = [spec.origin, *arguments]
    _execute(source, _main(spec.origin, spec), spec.origin)
