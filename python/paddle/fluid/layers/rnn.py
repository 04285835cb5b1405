"""Recurrent networks of fluid.layers."""

from __future__ import annotations

from paddle.nn.functional import gather_tree
from paddle.nn.layer.recurrent import birnn, rnn

__all__ = ["birnn", "gather_tree", "rnn"]
