"""The older import path of the containers."""

from paddle.nn.layer.container import LayerList, ParameterList, Sequential, __all__
