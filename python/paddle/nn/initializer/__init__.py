"""Initializers of parameters, for `ParamAttr(initializer=...)`."""

from paddle.nn.initializer import base as _base
from paddle.nn.initializer.assign import Assign
from paddle.nn.initializer.base import BilinearInitializer as Bilinear
from paddle.nn.initializer.base import set_global_initializer
from paddle.nn.initializer.constant import Constant
from paddle.nn.initializer.kaiming import KaimingNormal, KaimingUniform
from paddle.nn.initializer.normal import Normal, TruncatedNormal
from paddle.nn.initializer.uniform import Uniform
from paddle.nn.initializer.xavier import XavierNormal, XavierUniform

__all__ = [
    "Bilinear",
    "set_global_initializer",
    "Constant",
    "KaimingNormal",
    "KaimingUniform",
    "XavierNormal",
    "XavierUniform",
    "Assign",
    "Normal",
    "TruncatedNormal",
    "Uniform",
]

# used by create_parameter
_global_weight_initializer = _base._global_weight_initializer
_global_bias_initializer = _base._global_bias_initializer
