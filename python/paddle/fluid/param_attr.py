"""The older import path of paddle.ParamAttr."""

from paddle.framework.param_attr import ParamAttr, WeightNormParamAttr, __all__
