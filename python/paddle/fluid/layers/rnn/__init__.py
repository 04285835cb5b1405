"""fluid.layers.rnn: recurrent cells, decoders, and recurrent operators over LoD sequences."""

from . import beam, decoder, dynamic
from .beam import *  # noqa: F403
from .decoder import *  # noqa: F403
from .dynamic import *  # noqa: F403

__all__ = [*decoder.__all__, *dynamic.__all__, *beam.__all__]
