"""RuntimeBase: the interface of runtimes."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


class RuntimeBase:
    """The interface of runtimes; every method does nothing."""

    def _set_basic_info(self, context: dict[str, Any]) -> None:
        self.context = context

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing."""

    _run_worker = _init_worker = _init_server = _run_server = _stop_worker = _nothing
    _save_inference_model = _save_persistables = _shrink = _nothing
