"""paddle.reader: functions from readers to readers. A reader is called without arguments and gives an iterator."""

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
