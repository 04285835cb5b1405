"""fluid.contrib.decoder: decoders of recurrent networks with a user-defined step."""

from . import beam_search_decoder
from .beam_search_decoder import *  # noqa: F403

__all__ = [*beam_search_decoder.__all__]
