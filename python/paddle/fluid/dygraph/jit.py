"""fluid.dygraph.jit: TracedLayer by its 1.x name."""

from paddle.jit.traced import TracedLayer, extract_vars

__all__ = ["TracedLayer"]
