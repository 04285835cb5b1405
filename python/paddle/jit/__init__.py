"""paddle.jit: layers of dygraph mode converted to Programs."""

from .traced import TracedLayer

__all__ = ["TracedLayer"]
