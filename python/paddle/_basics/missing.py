"""Names of the API that this build does not have: they raise an error that says so."""

from __future__ import annotations

import importlib
import opcode
import sys
import types
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from typing import Any, NoReturn

from paddle._basics.homes import homes

__all__ = ["OperatorMissing", "absent", "getter", "install", "require", "speak"]

_IMPORT_FROM = opcode.opmap.get("IMPORT_FROM")
NOT_YET = "a name of Paddle 2.0.2 that is missing here is not there yet"

# Public modules of Paddle 2.0.2, below `paddle`, that have not all been there: folder, modules of it.
_MODULES = """
. callbacks distribution hapi incubate inference onnx sysconfig text vision
dataset cifar conll05 flowers image imdb movielens voc2012 wmt14 wmt16
distributed.fleet base metrics utils
distributed.fleet.base role_maker
fluid average communicator data_feed_desc dataset distribute_lookup_table evaluator generator incubate install_check
fluid metrics trainer_desc transpiler
fluid.contrib mixed_precision
fluid.incubate data_generator fleet
fluid.incubate.fleet base collective parameter_server utils
fluid.incubate.fleet.base fleet_base mode role_maker
fluid.incubate.fleet.parameter_server distribute_transpiler mode pslib
fluid.incubate.fleet.parameter_server.distribute_transpiler distributed_strategy
fluid.incubate.fleet.utils fleet_util hdfs utils
fluid.transpiler collective
incubate optimizer reader
nn utils
static amp
text datasets
utils cpp_extension download unique_name
vision datasets models ops transforms
"""


def _module_names() -> frozenset[str]:
    rows = [line.split() for line in _MODULES.split("\n") if line]
    return frozenset(f"paddle.{folder}.{name}".replace("...", ".") for folder, *names in rows for name in names)


MODULES = _module_names()
HOMES = homes()


class OperatorMissing(NotImplementedError, AttributeError):
    """An operator, or the function or layer that stands on it, is not there.

    As it is an AttributeError, too, ``hasattr`` answers False for such a name.
    """


def require(what: str, operator: str) -> NoReturn:
    """Raises OperatorMissing: `what` needs `operator`."""
    raise OperatorMissing(f"{what} needs the operator {operator!r}, which is not implemented yet")


def absent(module: str, name: str) -> NoReturn:
    """Raises AttributeError: `module` has no `name`."""
    raise AttributeError(
        f"module {module!r} has no attribute {name!r}; {NOT_YET}", name=name, obj=sys.modules.get(module)
    )


def _is_import(frame: types.FrameType) -> bool:
    """Whether `frame` stands at ``from module import name``, which swallows what an AttributeError says."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


def getter(module: str, later: Mapping[str, str] | None = None) -> Callable[[str], object]:
    """A module's ``__getattr__``: names that are not there raise as `absent` does.

    Names in `later` (name to the module that has it, or that it is), and modules below this one, are imported when
    they are first asked for: Paddle imports all of itself at once, so scripts go by attributes wherever they like.
    """

    later = later or HOMES.get(module)

    def __getattr__(name: str) -> object:
        if later and name in later:
            return _bring(module, name, later[name])
        if _has_module(module, name):
            return _bring(module, name, f"{module}.{name}")
        if _is_import(sys._getframe(1)):
            raise ImportError(f"cannot import name {name!r} from {module!r}; {NOT_YET}", name=module)
        absent(module, name)

    return __getattr__


def _has_module(package: str, name: str) -> bool:
    """Whether a public module `name` lies below `package`."""
    path = vars(sys.modules[package]).get("__path__")
    if path is None or name[:1] in ("", "_"):
        return False
    return PathFinder.find_spec(f"{package}.{name}", path) is not None


def _bring(module: str, name: str, source: str) -> object:
    """Imports what `module` has under `name` from the module `source`, and keeps it there."""
    found = importlib.import_module(source)
    speak()
    value = found if source.rpartition(".")[2] == name else getattr(found, name)
    setattr(sys.modules[module], name, value)
    return value


class _Finder:
    """Asked last, for modules that nobody found: says of those that Paddle has that they are not there yet.

    No `importlib.abc.MetaPathFinder` by class: with that come some thirty modules that nothing here needs.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}; it is one of Paddle 2.0.2 that is not there yet", name=fullname
            )


def speak() -> None:
    """Lets every public module that is loaded say of a missing name what `absent` says."""
    for name, module in list(sys.modules.items()):
        if name.startswith("paddle.") and "._" not in name and "__getattr__" not in vars(module):
            module.__getattr__ = getter(name)  # type: ignore[method-assign]


def install() -> None:
    """Makes every public module that is loaded, and every one that is not there, speak as `absent` does."""
    speak()
    sys.meta_path.append(_Finder())
