"""The older place of paddle.static.amp's fp16_lists."""

from paddle.static.amp.fp16_lists import AutoMixedPrecisionLists, CustomOpLists
from paddle.static.amp.fp16_lists import black_list as black_list
from paddle.static.amp.fp16_lists import gray_list as gray_list
from paddle.static.amp.fp16_lists import white_list as white_list

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists"]
