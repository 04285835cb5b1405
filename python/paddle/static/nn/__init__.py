"""paddle.static.nn: layers of static Programs."""

from ..conditional import case, cond, switch_case
from ..creation import create_parameter
from ..loops import while_loop
from ..pyfunc import py_func
from . import sequence as sequence
from .common import batch_norm, conv2d, embedding, fc, layer_norm
from .crf import crf_decoding
from .group import group_norm
from .norms import instance_norm, prelu, spectral_norm
from .sampled import nce
from .sequence import *  # noqa: F403

__all__ = [
    "fc",
    "batch_norm",
    "embedding",
    "case",
    "cond",
    "conv2d",
    "create_parameter",
    "crf_decoding",
    "group_norm",
    "instance_norm",
    "prelu",
    "spectral_norm",
    "layer_norm",
    "nce",
    "py_func",
    "switch_case",
    "while_loop",
    *sequence.__all__,
]
