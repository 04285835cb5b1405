"""paddle.jit: layers of dygraph mode as Programs."""

from .traced import TracedLayer

__all__ = ["TracedLayer"]
