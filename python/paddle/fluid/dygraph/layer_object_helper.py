"""paddle.fluid.dygraph.layer_object_helper."""

from paddle.nn.layer_object_helper import LayerObjectHelper

__all__ = ["LayerObjectHelper"]
