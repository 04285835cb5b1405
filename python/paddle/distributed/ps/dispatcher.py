"""Dispatchers: the assignment of blocks of variables to servers."""

from __future__ import annotations

import zlib
from typing import Any

__all__ = ["PSDispatcher", "HashName", "RoundRobin"]


class PSDispatcher:
    """The base of dispatchers; a subclass overrides `dispatch`.

    Args:
        pserver_endpoints (list of str): ``ip:port`` of every server.
    """

    def __init__(self, pserver_endpoints):
        self._eps = pserver_endpoints
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The servers."""
        return self._eps

    def reset(self) -> None:
        """Restarts with the first server."""
        self._step = 0

    def dispatch(self, varlist):
        """The endpoint for each variable, in their order.

        Raises:
            NotImplementedError: unless a subclass overrides this.
        """
        raise NotImplementedError(f"{type(self).__name__} must override dispatch")


def _name(var: Any) -> str:
    name = getattr(var, "name", var)
    return name() if callable(name) else name


class HashName(PSDispatcher):
    """By a hash of the variable's name: CRC-32, which is the same in every process, unlike Python's `hash`.

    Args:
        pserver_endpoints (list of str): ``ip:port`` of every server.

    Examples:
        >>> from paddle.fluid.transpiler import HashName
        >>> HashName(["127.0.0.1:6007", "127.0.0.1:6008"]).dispatch(["w", "b", "w"])
        ['127.0.0.1:6007', '127.0.0.1:6008', '127.0.0.1:6007']
    """

    def dispatch(self, varlist):
        """The endpoint for each variable (an object with `name`, or a name)."""
        return [self._eps[zlib.crc32(_name(var).encode()) % len(self._eps)] for var in varlist]


class RoundRobin(PSDispatcher):
    """Round robin; the next call continues with the next server.

    Args:
        pserver_endpoints (list of str): ``ip:port`` of every server.

    Examples:
        >>> from paddle.fluid.transpiler import RoundRobin
        >>> turns = RoundRobin(["127.0.0.1:6007", "127.0.0.1:6008"])
        >>> turns.dispatch(["w", "b", "v"])
        ['127.0.0.1:6007', '127.0.0.1:6008', '127.0.0.1:6007']
    """

    def dispatch(self, varlist):
        """The endpoint for each variable."""
        chosen = []
        for _ in varlist:
            chosen.append(self._eps[self._step])
            self._step = (self._step + 1) % len(self._eps)
        return chosen
