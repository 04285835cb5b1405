"""paddle.fluid.layer_helper_base."""

from paddle.nn.layer_helper_base import LayerHelperBase

__all__ = ["LayerHelperBase"]
