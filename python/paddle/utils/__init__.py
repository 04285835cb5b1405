"""paddle.utils: helpers beside the operators."""

from . import dlpack, profiler
from .profiler import Profiler, ProfilerOptions, get_profiler

__all__ = ["dlpack", "profiler", "Profiler", "ProfilerOptions", "get_profiler"]
