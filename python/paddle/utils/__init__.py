"""paddle.utils: helpers beside the operators."""

from . import dlpack, profiler, unique_name
from .profiler import Profiler, ProfilerOptions, get_profiler

__all__ = ["dlpack", "profiler", "unique_name", "Profiler", "ProfilerOptions", "get_profiler"]
