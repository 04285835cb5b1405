"""CollectiveRuntime: of workers alone."""

from __future__ import annotations

import warnings
from typing import Any

from .runtime_base import RuntimeBase

__all__: list[str] = []


class CollectiveRuntime(RuntimeBase):
    """Workers need no start and no end of their own: a warning says so."""

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        """Warns that a job of workers has no such step."""
        warnings.warn("a job of workers alone has no servers to talk to: nothing is done", stacklevel=3)

    _run_worker = _init_worker = _init_server = _run_server = _stop_worker = _nothing
    _save_inference_model = _save_persistables = _nothing
