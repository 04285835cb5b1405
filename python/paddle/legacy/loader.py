"""The import hook: a script's own modules are rewritten, and see the restored names. Installed packages are not."""

from __future__ import annotations

import builtins
import os
import site
import sys
import sysconfig
import types
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from paddle._basics.removed_names import by_module

from . import changes, rewrite
from .modules import import_for_script
from .numbers import operands, single

__all__ = ["install", "installed", "prepare"]


def _folders() -> tuple[str, ...]:
    """The folders of installed packages, of Python's library, and of this package."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found.update(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        found.add(site.getusersitepackages())
    found.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.realpath(path) + os.sep for path in found if path)


_INSTALLED = _folders()


def installed(path: str) -> bool:
    """Whether a file belongs to an installed package, to Python, or to this package."""
    full = os.path.realpath(path)
    return full.startswith(_INSTALLED) or f"{os.sep}site-packages{os.sep}" in full or "dist-packages" in full


def _builtins() -> dict[str, Any]:
    names = dict(vars(builtins))
    for name, row in by_module()["builtins"].items():
        if row.changed or name not in names:
            names[name] = row.value()
    names["__import__"] = import_for_script
    names[rewrite.SINGLE], names[rewrite.OPERANDS] = single, operands
    return names


_names: dict[str, Any] = {}


def prepare(module: types.ModuleType) -> None:
    """Gives a module the builtins of a script's modules."""
    if not _names:
        _names.update(_builtins())
    vars(module)["__builtins__"] = _names


class _Loader(SourceFileLoader):
    """Loads a module of the script. The rewritten code is not cached."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        changes.note("the module is rewritten", f"{path}:0")
        return rewrite.compiled(self.get_data(path), path)

    def exec_module(self, module: types.ModuleType) -> None:
        prepare(module)
        exec(self.get_code(module.__name__), vars(module))


class _Finder:
    """Finds the script's modules; others are left to the next finder."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] == "paddle":
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or type(spec.loader) is not SourceFileLoader or installed(spec.loader.path):
            return None
        spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def install() -> None:
    """Adds the finder; once."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
