"""paddle.static.nn: functions that create layers of static Programs."""

from ..conditional import case, cond, switch_case
from ..creation import create_parameter
from ..loops import while_loop
from ..pyfunc import py_func
from . import sequence as sequence
from .common import batch_norm, bilinear_tensor_product, embedding, fc, layer_norm, row_conv, sparse_embedding
from .conv import conv2d, conv2d_transpose, conv3d, conv3d_transpose, deform_conv2d
from .crf import crf_decoding
from .detection import multi_box_head
from .group import group_norm
from .norms import instance_norm, prelu, spectral_norm
from .sampled import nce
from .sequence import *  # noqa: F403
from .statistics import data_norm

__all__ = [
    "fc",
    "batch_norm",
    "bilinear_tensor_product",
    "embedding",
    "case",
    "cond",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "create_parameter",
    "crf_decoding",
    "data_norm",
    "deform_conv2d",
    "group_norm",
    "instance_norm",
    "prelu",
    "spectral_norm",
    "layer_norm",
    "multi_box_head",
    "nce",
    "py_func",
    "row_conv",
    "sparse_embedding",
    "switch_case",
    "while_loop",
    *sequence.__all__,
]
