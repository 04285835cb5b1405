"""Registry of runners: a runner executes a Program for `Executor.run`; a Program names the kind of its runner.

`register(kind, factory)` adds a kind; `assign(program, kind, state)` sets the kind of a Program; `resolve(program)`
returns its runner. A package that adds a way to run Programs registers a kind when it is
imported; the Executor does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__: list[str] = []


class Request:
    """The arguments of one call of `Executor.run`.

    Attributes:
        feed (dict|list|None): the argument `feed`.
        fetch_list (list|tuple): Variables, names, and operators of the optimizer.
        fetch_var_name (str): the variable that upstream's fetch operators write.
        scope (Scope): where the variables are.
        return_numpy (bool), return_merged (bool), use_prune (bool): as in `Executor.run`.
        default (bool): whether the caller left the Program out.
    """

    __slots__ = (
        "feed",
        "fetch_list",
        "fetch_var_name",
        "scope",
        "return_numpy",
        "return_merged",
        "use_prune",
        "default",
    )

    def __init__(
        self,
        feed: Any,
        fetch_list: Any,
        fetch_var_name: Any,
        scope: Any,
        return_numpy: Any,
        return_merged: Any = True,
        use_prune: Any = False,
        default: bool = False,
    ) -> None:
        self.feed = feed
        self.fetch_list = fetch_list
        self.fetch_var_name = fetch_var_name
        self.scope = scope
        self.return_numpy = return_numpy
        self.return_merged = return_merged
        self.use_prune = use_prune
        self.default = default


class Runner:
    """Executes one Program.

    Args:
        program (Program|CompiledProgram): the argument of `Executor.run`.
        state: the argument of `assign`.
    """

    def __init__(self, program: Any, state: Any = None) -> None:
        self.program, self.state = program, state

    def run(self, executor: Any, request: Request) -> list:
        """The fetched values of one run, in the order of the fetch list."""
        raise NotImplementedError


class Runnable:
    """Base of what `Executor.run` takes: Program and CompiledProgram."""

    #: the registered kind, its state, and the runner that the first run makes
    _runner_kind: str = "plain"
    _runner_state: Any = None
    _runner: Runner | None = None


_FACTORIES: dict[str, Callable[[Any, Any], Runner]] = {}


def register(kind: str, factory: Callable[[Any, Any], Runner]) -> None:
    """Runners of `kind` are made by ``factory(program, state)``, usually a subclass of Runner.

    Raises:
        ValueError: when the kind is registered already.
    """
    if kind in _FACTORIES:
        raise ValueError(f"a runner of kind {kind!r} is registered already")
    _FACTORIES[kind] = factory


def assign(program: Runnable, kind: str, state: Any = None) -> None:
    """Runs of `program` use a runner of `kind`, which gets `state`. A clone of the Program is plain again."""
    program._runner_kind, program._runner_state, program._runner = kind, state, None


def resolve(program: Any) -> Runner:
    """The runner of a Program or CompiledProgram.

    Raises:
        TypeError: for any other object.
        ValueError: when no imported package has registered the kind.
    """
    if not isinstance(program, Runnable):
        raise TypeError(f"run: program must be a Program, got {type(program)}")
    runner = program._runner
    if runner is None:
        kind = program._runner_kind
        if kind not in _FACTORIES:
            raise ValueError(f"no runner of kind {kind!r} is registered")
        runner = program._runner = _FACTORIES[kind](program, program._runner_state)
    return runner
