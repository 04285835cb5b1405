"""PaddlePaddle 2.0's API over a Rust core."""
import paddle._core as _core
from paddle import _dispatch
from paddle._basics import missing as _missing
from paddle._basics.default_dtype import get_default_dtype, set_default_dtype
from paddle._basics.mode import is_compiled_with_xpu
from paddle._basics.place import CPUPlace, CUDAPinnedPlace, CUDAPlace, is_compiled_with_cuda
from paddle._basics.random import get_cuda_rng_state, seed, set_cuda_rng_state
from paddle._basics.to_string import set_printoptions
from paddle._dispatch.dygraph import disable_static, enable_static, grad, in_dynamic_mode
from paddle._dispatch.dygraph import no_grad_ as no_grad
from paddle._programs.parameter import ParamBase

Tensor = VarBase = _core.Tensor

from . import tensor
from .tensor import *  # noqa: F403
from .tensor import cast, to_tensor
from . import amp
from . import device
from .device import get_cudnn_version, get_device, set_device
from . import nn
from .nn.param_attr import ParamAttr
from . import static
from .static.creation import create_parameter
from . import distributed
from .distributed.data_parallel import DataParallel

device.ParallelEnv = distributed.ParallelEnv  # type: ignore[attr-defined]

from . import framework
from .framework import load, save
from . import io
from . import metric
from . import optimizer
from . import regularizer
from . import compat
from . import dataset
from . import jit
from . import reader
from . import utils
from . import fluid
from .utils.dlpack import from_dlpack
from .batch import batch

__version__ = full_version = "2.0.2"

__getattr__ = _missing.getter(__name__)
_missing.install()
