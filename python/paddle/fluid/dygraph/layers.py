"""The older import path of paddle.nn.Layer."""

from paddle.nn.layer.layer_support import HookRemoveHelper
from paddle.nn.layer.layers import Layer, __all__
