"""PaddlePaddle 2.0's API over a Rust core."""
from paddle import _core
from paddle import framework
from paddle.framework.default_dtype import get_default_dtype, set_default_dtype
from paddle.framework.dygraph import disable_static, enable_static, grad, in_dynamic_mode
from paddle.framework.dygraph import no_grad_ as no_grad
from paddle.framework.param_attr import ParamAttr
from paddle.framework.place import CPUPlace, CUDAPinnedPlace, CUDAPlace, is_compiled_with_cuda
from paddle.framework.mode import is_compiled_with_xpu
from paddle.framework.parameter import ParamBase
from paddle.framework.to_string import set_printoptions

Tensor = VarBase = _core.Tensor

from . import tensor
from .tensor import *  # noqa: F403
from .tensor import cast, to_tensor
from . import amp
from . import device
from .device import get_cudnn_version, get_device, set_device
from . import static
from . import fluid
from . import distributed
from . import io
from . import metric
from . import nn
from . import optimizer
from . import regularizer
from . import compat
from . import dataset
from . import jit
from . import reader
from . import utils
from .utils.dlpack import from_dlpack
from .batch import batch
from .distributed.data_parallel import DataParallel
from .framework.saving import load, save
from .framework.random import seed, get_cuda_rng_state, set_cuda_rng_state
from .static.creation import create_parameter

# paddle.framework has these names, too; its modules stand below those that some of them come from
for _name in (
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "DataParallel", "ParamAttr", "VarBase", "create_parameter",
    "get_default_dtype", "grad", "load", "no_grad", "save", "seed", "set_default_dtype",
):
    setattr(framework, _name, globals()[_name])
del _name
device.ParallelEnv = distributed.ParallelEnv  # type: ignore[attr-defined]

__version__ = full_version = "2.0.2"

__getattr__ = framework.missing.getter(__name__)
framework.missing.install()
