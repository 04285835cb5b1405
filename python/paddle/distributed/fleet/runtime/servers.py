"""Who makes the Programs of a job with parameter servers: the transpiler, which stands above and says so here."""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

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
