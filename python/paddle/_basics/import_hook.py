"""The package's import hook: makes the modules of the table of legacy names and sets ``__getattr__`` of all modules."""

from __future__ import annotations

import importlib
import sys
import types
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from paddle._basics.legacy_names import children, entry
from paddle._basics.missing import getter

__all__ = ["MISSING_MODULES", "install"]

# Public modules of Paddle 2.0.2 that this package does not have.
MISSING_MODULES: frozenset[str] = frozenset()


def _install(module: types.ModuleType) -> None:
    """Sets ``__getattr__``, and where the table adds names or submodules also ``__dir__``."""
    name, namespace = module.__name__, vars(module)
    namespace["__getattr__"] = getter(name)
    legacy = entry(name)
    added = {*(legacy.names if legacy else ()), *children().get(name, ())}
    if added:
        namespace["__dir__"] = lambda: sorted({*namespace, *added})


class _SourceLoader(SourceFileLoader):
    """Loads a public module from its file; without a ``__getattr__`` of its own it gets the one of `missing.getter`."""

    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        if "__getattr__" not in vars(module):
            _install(module)


class _LegacyLoader:
    """Makes a module of the table: it has no file, and imports each name on first use."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: types.ModuleType) -> None:
        name = module.__name__
        legacy = entry(name)
        assert legacy is not None
        if legacy.same:
            sys.modules[name] = importlib.import_module(legacy.same)
            return
        sources = sorted({source.partition(":")[0] for source in legacy.names.values()})
        module.__doc__ = f"{name}: upstream's path of names that are defined in {', '.join(sources)}."
        vars(module)["__all__"] = list(legacy.public)
        _install(module)

    @staticmethod
    def get_code(name: str) -> types.CodeType:
        """For ``python -m``: the module is made, and nothing else happens."""
        return compile(f"import {name}", f"<{name}>", "exec")


class _Finder:
    """Finds the public modules below `paddle`: from files, then in the table.

    It does not derive from `importlib.abc.MetaPathFinder`, whose module imports some thirty others.
    """

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("paddle.") or "._" in fullname:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None:
            if type(spec.loader) is SourceFileLoader:
                spec.loader = _SourceLoader(fullname, spec.loader.path)
            return spec
        if entry(fullname) is not None:
            return ModuleSpec(fullname, _LegacyLoader(), is_package=fullname in children())  # type: ignore[arg-type]
        if fullname in MISSING_MODULES:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}; it is one of Paddle 2.0.2 that is not there yet", name=fullname
            )
        from paddle._basics import internal_reasons

        why = internal_reasons.module_reason(fullname)
        if why is not None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}; it is internal to Paddle 2.0.2: {why}", name=fullname
            )
        return None


def install() -> None:
    """Adds the finder right before Python's own of files, so that finders of other packages come first; once."""
    if _Finder not in sys.meta_path:
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
        sys.meta_path.insert(place, _Finder)  # type: ignore[arg-type]
