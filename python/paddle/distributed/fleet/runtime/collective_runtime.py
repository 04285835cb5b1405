"""CollectiveRuntime: the runtime of a collective job."""

from __future__ import annotations

import warnings
from typing import Any

from .runtime_base import RuntimeBase

__all__: list[str] = []


class CollectiveRuntime(RuntimeBase):
    """The runtime without servers: every method only warns."""

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        """Warns that a collective job has no servers."""
        warnings.warn("a collective job has no servers: nothing is done", stacklevel=3)

    _run_worker = _init_worker = _init_server = _run_server = _stop_worker = _nothing
    _save_inference_model = _save_persistables = _nothing
