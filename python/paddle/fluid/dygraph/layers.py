"""The older import path of paddle.nn.Layer."""

from paddle.nn.layer.layers import Layer, __all__
from paddle.nn.layer.parts import HookRemoveHelper
