"""Names of the API whose operators this build does not have: they raise an error that names the operator."""
from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["OperatorMissing", "functions", "getter", "require"]


class OperatorMissing(NotImplementedError, AttributeError):
    """An operator, or the function or layer that stands on it, is not there.

    As it is an AttributeError, too, ``hasattr`` answers False for such a name.
    """


def require(what: str, operator: str):
    """Raises OperatorMissing: `what` needs `operator`."""
    raise OperatorMissing(f"{what} needs the operator {operator!r}, which is not implemented yet")


def getter(module: str, table: Mapping[str, str]) -> Callable[[str], object]:
    """A module's ``__getattr__``: the names in `table` (name to operator) raise OperatorMissing."""

    def __getattr__(name: str):
        if name in table:
            require(f"{module}.{name}", table[name])
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def functions(module: str, table: Mapping[str, str]) -> dict[str, Callable]:
    """A function for each name in `table` (name to operator): it can be imported, and raises when called."""

    def make(name: str, operator: str) -> Callable:
        def missing(*args, **kwargs):
            require(f"{module}.{name}", operator)

        missing.__name__ = missing.__qualname__ = name
        missing.__doc__ = f"Waits for the operator {operator}: raises OperatorMissing."
        return missing

    return {name: make(name, operator) for name, operator in table.items()}
