"""paddle.jit: functions and layers of dygraph mode as Programs."""

from .decorators import to_static
from .loading import load
from .program_translator import ProgramTranslator
from .saving import save
from .traced import TracedLayer
from .translated_layer import TranslatedLayer

__all__ = ["save", "load", "TracedLayer", "to_static", "ProgramTranslator", "TranslatedLayer"]
