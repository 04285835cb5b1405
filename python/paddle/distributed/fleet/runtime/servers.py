"""Who makes the Programs of a job with parameter servers: the transpiler, which stands above and says so here."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle._basics.place import CPUPlace
from paddle._programs.scope import global_scope, scope_guard
from paddle.static.inference_folder import save_inference_model
from paddle.static.vars_io import is_persistable, save_vars

__all__: list[str] = []

_maker: Callable[..., Any] | None = None


def register(maker: Callable[..., Any]) -> None:
    """Names what makes the Programs: called as ``maker(role, program, startup, sync, push_nums, settings)``."""
    global _maker
    _maker = maker


def make(*how: Any) -> Any:
    """The Programs of a job with servers (`paddle.fluid.transpiler.fleet_servers.ServerPrograms`)."""
    if _maker is None:
        importlib.import_module("paddle.fluid.fleet_servers")  # registers itself; most programs do without fluid
    if _maker is None:
        raise RuntimeError("fleet: no maker of servers' Programs has been registered")
    return _maker(*how)


def _own(fetched: tuple[Any, list[Any]]) -> Callable[[Any], bool]:
    """Whether a variable is one that only workers have, such as running averages."""
    scope, names = global_scope(), {var.name for var in fetched[1]}

    def own(var: Any) -> bool:
        found = scope.find_var(var.name) if is_persistable(var) and var.name not in names else None
        return found is not None and found.get_tensor()._is_initialized()

    return own


def save(executor: Any, dirname: str, program: Any, fetched: tuple[Any, list[Any]]) -> None:
    """Writes what a worker got from the servers (a scope, and its variables), and what only workers have."""
    os.makedirs(dirname, exist_ok=True)
    theirs, held = fetched
    if held:
        with scope_guard(theirs):
            save_vars(executor, dirname, program, vars=held)
    own = _own(fetched)
    if any(map(own, program.list_vars())):
        save_vars(executor, dirname, program, predicate=own)


def save_for_inference(
    executor: Any,
    dirname: str,
    feeds: list[str],
    targets: list[Any],
    origin: Any,
    fetched: tuple[Any, list[Any]],
    export_for_deployment: bool,
) -> None:
    """Writes what computes `targets`: the Program as one process has it (`origin`), with the servers' whole tables."""
    (theirs, _), own, scope = fetched, _own(fetched), global_scope()
    block = origin.global_block()
    for var in filter(own, block.vars.values()):
        value = np.array(scope.find_var(var.name).get_tensor())
        theirs.var(var.name).get_tensor().set(value, CPUPlace())
    with scope_guard(theirs):
        chosen = [block.var(var.name) for var in targets]
        save_inference_model(dirname, feeds, chosen, executor, origin, None, None, export_for_deployment)
