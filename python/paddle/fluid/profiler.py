"""paddle.fluid.profiler: which operators ran, how often and for how long."""

from paddle.utils.profiler import cuda_profiler, profiler, reset_profiler, start_profiler, stop_profiler

__all__ = ["cuda_profiler", "reset_profiler", "profiler", "start_profiler", "stop_profiler"]
