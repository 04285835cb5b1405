"""RuntimeFactory: selects the runtime of a job."""

from __future__ import annotations

from typing import Any

from ..runtime import CollectiveRuntime, ParameterServerRuntime

__all__: list[str] = []


class RuntimeFactory:
    """Selects CollectiveRuntime or ParameterServerRuntime by the role maker."""

    def _create_runtime(self, context: dict[str, Any]) -> Any:
        runtime = CollectiveRuntime() if context["role_maker"]._is_collective else ParameterServerRuntime()
        runtime._set_basic_info(context)
        return runtime
