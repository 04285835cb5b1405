"""paddle.jit: functions and layers of dygraph mode as Programs."""

from .decorators import to_static
from .program_translator import ProgramTranslator
from .traced import TracedLayer

__all__ = ["TracedLayer", "to_static", "ProgramTranslator"]
