"""The observer of `Executor.run`: an object called before each run, registered while a training loop is active."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["RunObserver", "set_observer"]


class RunObserver(Protocol):
    """The interface of an observer."""

    def before_run(self, executor: Any, program: Any) -> None:
        """Called with the arguments of `Executor.run`, before the Program is resolved; `program` may be None."""


#: the registered observer: the Executor reads it at every run
observer: RunObserver | None = None


def set_observer(new: RunObserver | None) -> None:
    """Registers the observer of this process; None removes it."""
    global observer
    observer = new
