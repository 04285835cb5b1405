"""paddle.fluid.layer_helper."""

from paddle.nn.layer_helper import LayerHelper

__all__ = ["LayerHelper"]
