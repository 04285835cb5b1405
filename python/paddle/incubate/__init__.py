"""paddle.incubate: experimental APIs."""

from paddle._basics.missing import getter as _getter
from paddle.nn.layer_helper import LayerHelper as LayerHelper
from paddle.utils.op_library import load_op_library as load_op_library

from . import optimizer, reader
from .optimizer import LookAhead, ModelAverage

__all__ = ["LookAhead", "ModelAverage", "optimizer", "reader"]

__getattr__ = _getter(__name__)
