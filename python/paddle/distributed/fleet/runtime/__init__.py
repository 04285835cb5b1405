"""The runtimes of fleet jobs: collective, and with parameter servers."""

from .collective_runtime import CollectiveRuntime
from .parameter_server_runtime import ParameterServerRuntime
from .runtime_base import RuntimeBase

__all__ = ["CollectiveRuntime", "ParameterServerRuntime", "RuntimeBase"]
