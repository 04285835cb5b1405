"""Memory of Tensors in cycles goes back to the system: until a full collection it is neither in use nor idle, so that
the process grows by much more than it needs.
"""

from __future__ import annotations

import gc
from typing import Any

import paddle._core as core

__all__: list[str] = []

#: idle bytes that a collection must add
_MUCH = 32 << 20
_idle_before = 0


def _collected(phase: str, info: dict[str, Any], core: Any = core) -> None:
    """A callback of `gc`: after a full collection that freed much memory of Tensors, the idle memory is returned."""
    global _idle_before
    if info["generation"] != 2:
        return
    idle = core.memory_stats()[2]
    if phase == "start":
        _idle_before = idle
    elif idle - _idle_before >= _MUCH:
        core.empty_cache()


gc.callbacks.append(_collected)
