"""paddle.jit: functions and layers of dygraph mode as Programs."""

from typing import TYPE_CHECKING

from paddle._basics.missing import getter as _getter

from .traced import TracedLayer

if TYPE_CHECKING:
    from . import dy2static
    from .decorators import not_to_static, to_static
    from .dy2static.logging_utils import set_code_level, set_verbosity
    from .loading import load
    from .program_translator import ProgramTranslator
    from .saving import save
    from .translated_layer import TranslatedLayer

__all__ = [
    "save",
    "load",
    "TracedLayer",
    "to_static",
    "ProgramTranslator",
    "TranslatedLayer",
    "set_code_level",
    "set_verbosity",
    "not_to_static",
]

# The translation loads Python's compiler modules: at first use.
_LATER = {
    "save": "paddle.jit.saving",
    "load": "paddle.jit.loading",
    "to_static": "paddle.jit.decorators",
    "not_to_static": "paddle.jit.decorators",
    "ProgramTranslator": "paddle.jit.program_translator",
    "TranslatedLayer": "paddle.jit.translated_layer",
    "set_code_level": "paddle.jit.dy2static.logging_utils",
    "set_verbosity": "paddle.jit.dy2static.logging_utils",
    "dy2static": "paddle.jit.dy2static",
}

__getattr__ = _getter(__name__, later=_LATER)
