"""The older import path of paddle.ParamAttr."""

from paddle.nn.param_attr import ParamAttr, WeightNormParamAttr, __all__
