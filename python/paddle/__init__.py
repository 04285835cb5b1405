"""The API of PaddlePaddle 2.0 over a Rust core. Type checkers take a name imported `as` itself for an export."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from paddle._basics import foreign as _foreign

_foreign.check(__path__[0])  # before a module that paddlepaddle has, too

import paddle._core as _core
from paddle._basics import import_hook as _import_hook

_import_hook.install()  # before any public module is imported

from paddle._basics import legacy_hint as _legacy_hint

from paddle import _dispatch
from paddle import version as version
from paddle._basics import flags as _flags  # noqa: F401 -- passes flags of the environment to the engine
from paddle._basics import idle_memory as _idle_memory  # noqa: F401 -- a callback of the garbage collector
from paddle._basics import missing as _missing
from paddle._basics.flags import get_flags as get_flags
from paddle._basics.flags import set_flags as set_flags
from paddle._basics.default_dtype import get_default_dtype as get_default_dtype
from paddle._basics.default_dtype import set_default_dtype as set_default_dtype
from paddle._basics.mode import is_compiled_with_xpu as is_compiled_with_xpu
from paddle._basics.place import CPUPlace as CPUPlace
from paddle._basics.place import CUDAPinnedPlace as CUDAPinnedPlace
from paddle._basics.place import CUDAPlace as CUDAPlace
from paddle._basics.place import is_compiled_with_cuda as is_compiled_with_cuda
from paddle._basics.random import get_cuda_rng_state as get_cuda_rng_state
from paddle._basics.random import seed as seed
from paddle._basics.random import set_cuda_rng_state as set_cuda_rng_state
from paddle._basics.to_string import set_printoptions as set_printoptions
from paddle._dispatch.dygraph import disable_static as disable_static
from paddle._dispatch.dygraph import enable_static as enable_static
from paddle._dispatch.dygraph import grad as grad
from paddle._dispatch.dygraph import in_dynamic_mode as in_dynamic_mode
from paddle._dispatch.dygraph import no_grad_ as _no_grad
from paddle._dispatch.math_op_patch import monkey_patch_variable as monkey_patch_variable
from paddle._programs.parameter import ParamBase as ParamBase

from ._core import Tensor as Tensor

VarBase = _core.Tensor
no_grad = _no_grad

from . import tensor as tensor
from .tensor import *  # noqa: F403

# again by module: type checkers do not evaluate tensor's computed __all__
from .tensor.creation import *  # noqa: F403
from .tensor.linalg import *  # noqa: F403
from .tensor.logic import *  # noqa: F403
from .tensor.manipulation import *  # noqa: F403
from .tensor.math import *  # noqa: F403
from .tensor.random import *  # noqa: F403
from .tensor.search import *  # noqa: F403
from .tensor.stat import *  # noqa: F403
from .tensor.crop_tensor import crop as crop
from .tensor import cast as cast, imag as imag, rank as rank, real as real, shape as shape, to_tensor as to_tensor
from .tensor.tensor import monkey_patch_math_varbase as monkey_patch_math_varbase
from . import device as device
from .device import XPUPlace as XPUPlace
from .device import get_cudnn_version as get_cudnn_version, get_device as get_device, set_device as set_device
from . import nn as nn
from .nn.param_attr import ParamAttr as ParamAttr
from .batch import batch as batch

__version__ = full_version = version.full_version

if _TYPE_CHECKING:
    from . import amp as amp, callbacks as callbacks, compat as compat, dataset as dataset, distributed as distributed
    from . import distribution as distribution, fluid as fluid, framework as framework, hapi as hapi
    from . import incubate as incubate, inference as inference, io as io, jit as jit, metric as metric, onnx as onnx
    from . import optimizer as optimizer
    from . import reader as reader, regularizer as regularizer, static as static, sysconfig as sysconfig, text as text
    from . import utils as utils, vision as vision
    from .distributed.data_parallel import DataParallel as DataParallel
    from .framework import load as load, save as save
    from .hapi import Model as Model, flops as flops, summary as summary
    from .static.creation import create_parameter as create_parameter
    from .utils.dlpack import from_dlpack as from_dlpack

# Modules that are imported when they are first used.
_LATER = {
    name: f"paddle.{name}"
    for name in """
    amp callbacks compat dataset distributed distribution fluid framework hapi incubate inference io jit metric onnx
    optimizer reader regularizer static sysconfig text utils vision
    """.split()
}
_LATER.update(dict.fromkeys(("Model", "flops", "summary"), "paddle.hapi"))
_LATER.update(dict.fromkeys(("load", "save"), "paddle.framework"))
_LATER["DataParallel"] = "paddle.distributed.data_parallel"
_LATER["create_parameter"] = "paddle.static.creation"
_LATER["from_dlpack"] = "paddle.utils.dlpack"

_legacy_hint.install()
# After the Tensors that the package itself creates.
_core.set_undecided(True)
__getattr__ = _missing.getter(__name__, later=_LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [name for name in __dir__() if not name.startswith("_")]
