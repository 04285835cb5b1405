"""paddle.fluid.layer_helper."""

from paddle.framework.layer_helper import LayerHelper

__all__ = ["LayerHelper"]
