"""Recurrent networks of fluid.layers."""

from __future__ import annotations

from paddle.nn.decode import BeamSearchDecoder, Decoder, dynamic_decode
from paddle.nn.functional import gather_tree
from paddle.nn.layer.recurrent import birnn, rnn

__all__ = ["BeamSearchDecoder", "Decoder", "birnn", "dynamic_decode", "gather_tree", "rnn"]
