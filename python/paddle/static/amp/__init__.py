"""paddle.static.amp: mixed precision for static Programs."""

from .decorator import decorate
from .fp16_lists import AutoMixedPrecisionLists, CustomOpLists
from .fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16, fp16_guard

__all__ = [
    "decorate",
    "CustomOpLists",
    "AutoMixedPrecisionLists",
    "fp16_guard",
    "cast_model_to_fp16",
    "cast_parameters_to_fp16",
]
