"""paddle.tensor: functions on Tensors; most are also methods of Tensor."""

import paddle._core as _core
from paddle._basics.to_string import set_printoptions
from paddle._dispatch.dlpack_protocol import patch_dlpack_methods
from paddle._dispatch.later_methods import patch_later_methods
from paddle._dispatch.math_op_patch import patch_tensor_methods
from paddle.tensor.array import array_length, array_read, array_write, create_array  # noqa: F401

from . import attribute, creation, linalg, logic, manipulation, math, random, search, stat, tensor
from .attribute import *  # noqa: F403
from .attribute import shape
from .creation import *  # noqa: F403
from .linalg import *  # noqa: F403
from .logic import *  # noqa: F403
from .manipulation import *  # noqa: F403
from .math import *  # noqa: F403
from .math import cast
from .random import *  # noqa: F403
from .search import *  # noqa: F403
from .stat import *  # noqa: F403
from .tensor import to_tensor

_METHODS = [
    *math.__all__,
    *linalg.__all__,
    *logic.__all__,
    *manipulation.__all__,
    *search.__all__,
    *stat.__all__,
    "cast",
    "rank",
    "real",
    "imag",
]

for _name in _METHODS:
    if not hasattr(_core.Tensor, _name):
        setattr(_core.Tensor, _name, globals()[_name])

patch_tensor_methods({n: globals()[n] for n in _METHODS})
patch_dlpack_methods()
patch_later_methods()

__all__ = [*_METHODS, *creation.__all__, *random.__all__, "set_printoptions", "shape", "to_tensor"]
