"""paddle.reader: decorators of readers. A reader is a function without arguments that returns an iterator."""

from . import decorator
from .decorator import (
    ComposeNotAligned,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)

__all__: list[str] = []
