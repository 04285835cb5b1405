"""FetchHandler: a callback with the values of variables during training."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import numpy as np

from paddle._programs.variable import Variable, isinstance_of

__all__ = ["FetchHandler", "FetchHandlerMonitor"]

_log = logging.getLogger("paddle.fetch_handler")


class FetchHandler:
    """A callback of `train_from_dataset` that receives the values of variables periodically: override `handler`.

    Args:
        var_dict (dict): key of `handler`'s argument to Variable.
        period_secs (int): seconds between two calls.

    Examples:
        >>> import paddle.fluid as fluid
        >>> class Printer(fluid.executor.FetchHandler):
        ...     def handler(self, res_dict):
        ...         print(sorted(res_dict))
        >>> Printer(var_dict={"loss": None}).handler({"loss": None})
        ['loss']
    """

    def __init__(self, var_dict: Any = None, period_secs: float = 60) -> None:
        assert var_dict is not None, "FetchHandler takes var_dict, the variables by name"
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict: dict[str, Any]) -> None:
        """Prints the first element of each array."""
        for name, value in res_dict.items():
            if type(value) is np.ndarray:
                sys.stdout.write(f"{name}[0]: {value[0]} ")
        sys.stdout.write("\n")

    @staticmethod
    def help() -> None:
        """Prints an example."""
        print(
            "\nclass Auc(FetchHandler):\n    def handler(self, res_dict):\n        print(res_dict['auc'])\n\n"
            "exe.train_from_dataset(program, dataset, fetch_handler=Auc(var_dict={'auc': auc}, period_secs=60))\n"
        )


class FetchHandlerMonitor:
    """A thread that calls a FetchHandler with values of a scope.

    Args:
        scope (Scope): the scope of the variables.
        handler (FetchHandler): the callback.
    """

    def __init__(self, scope: Any, handler: FetchHandler) -> None:
        self.fetch_instance = handler
        self._scope = scope
        self._end = threading.Event()
        self.fetch_thread = threading.Thread(target=self._run, name="paddle-fetch-handler", daemon=True)

    @staticmethod
    def variables(handler: FetchHandler) -> dict[str, str]:
        """The names of the handler's Variables, by key; other values are logged and ignored."""
        if not isinstance(handler.var_dict, dict):
            _log.warning("FetchHandler: var_dict is no dict but %r: nothing is fetched", handler.var_dict)
            return {}
        found = {}
        for key, var in handler.var_dict.items():
            if isinstance_of(var, Variable):
                found[key] = var.name
            else:
                _log.warning("FetchHandler: the value of %s is no Variable", key)
        return found

    def _values(self, names: dict[str, str]) -> dict[str, Any]:
        values: dict[str, Any] = dict.fromkeys(self.fetch_instance.var_dict) if names else {}
        for key, name in names.items():
            var = self._scope.find_var(name)
            tensor = None if var is None else var.get_tensor()
            if tensor is None or not tensor._is_initialized():
                _log.warning("FetchHandler: %s has no value yet", key)
                continue
            if tensor.lod():
                raise RuntimeError(f"FetchHandler: {key} has LoD and cannot become an array; fetch another variable")
            values[key] = np.array(tensor)
        return values

    def _run(self) -> None:
        names = self.variables(self.fetch_instance)
        while not self._end.wait(self.fetch_instance.period_secs):
            self.fetch_instance.handler(self._values(names))

    def start(self) -> None:
        """Starts."""
        self.fetch_thread.start()

    def stop(self) -> None:
        """Stops after the current call."""
        self._end.set()
        if self.fetch_thread is not threading.current_thread() and self.fetch_thread.ident is not None:
            self.fetch_thread.join()
