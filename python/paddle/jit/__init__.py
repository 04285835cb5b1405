"""paddle.jit: layers of dygraph mode as Programs."""

from paddle._basics.missing import speak as _speak

from .traced import TracedLayer

__all__ = ["TracedLayer"]

_speak()
