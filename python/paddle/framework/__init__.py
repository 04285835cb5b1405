"""paddle.framework: places, parameters, recording of gradients, the seed, saving and loading."""

import paddle._core as core
from paddle._basics.place import CPUPlace, CUDAPinnedPlace, CUDAPlace
from paddle._dispatch.dygraph import grad
from paddle._dispatch.dygraph import no_grad_ as no_grad
from paddle.distributed.data_parallel import DataParallel
from paddle.nn.param_attr import ParamAttr
from paddle.static.creation import create_parameter

from . import random
from .framework import get_default_dtype, set_default_dtype
from .io import load, save
from .random import seed

VarBase = core.Tensor

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "DataParallel",
    "ParamAttr",
    "create_parameter",
    "get_default_dtype",
    "grad",
    "load",
    "no_grad",
    "save",
    "set_default_dtype",
]
