"""The module imp, which Python 3.12 has removed: loading of modules from files."""

from __future__ import annotations

import importlib.util
import sys
import types
from importlib import reload
from typing import Any

__all__ = ["find_module", "load_module", "load_source", "new_module", "reload"]


def load_source(name: str, pathname: str, file: Any = None) -> types.ModuleType:
    """The module `name`, loaded from a source file."""
    spec = importlib.util.spec_from_file_location(name, pathname)
    assert spec is not None and spec.loader is not None, f"load_source: {pathname} is no Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def find_module(name: str, path: Any = None) -> tuple[Any, str | None, Any]:
    """(file, path, description) of a module.

    Raises:
        ImportError: if there is none.
    """
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None:
        raise ImportError(f"No module named {name!r}", name=name)
    return None, spec.origin, ("", "", 5 if spec.submodule_search_locations else 1)


def load_module(name: str, file: Any, pathname: str, description: Any) -> types.ModuleType:
    """The module that `find_module` found."""
    return load_source(name, pathname)


def new_module(name: str) -> types.ModuleType:
    """An empty module."""
    return types.ModuleType(name)
