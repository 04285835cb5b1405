"""paddle.fluid: the API of Paddle 1.x, over the same engine."""

import paddle._core as _core
from paddle._basics.missing import getter as _getter
from paddle._basics.missing import speak as _speak
from paddle._dispatch.math_op_patch import monkey_patch_variable  # noqa: F401 (outside __all__, as upstream)
from paddle.nn.initializer.base import set_global_initializer  # noqa: F401 (as above)
from paddle.tensor.tensor import monkey_patch_math_varbase as monkey_patch_varbase  # noqa: F401 (as above)

from . import (  # noqa: F401 (some are reached as attributes, outside __all__)
    backward,
    clip,
    communicator,
    compiler,
    contrib,
    core,
    data_feeder,
    default_scope_funcs,
    distribute_lookup_table,
    dygraph,
    dygraph_utils,
    evaluator,
    executor,
    framework,
    initializer,
    input,
    io,
    layer_helper,
    layers,
    lod_tensor,
    log_helper,
    metrics,
    nets,
    op,
    optimizer,
    parallel_executor,
    param_attr,
    profiler,
    reader,
    regularizer,
    transpiler,
    unique_name,
    wrapped_decorator,
)
from .backward import append_backward, gradients
from .compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from .core import CPUPlace, CUDAPinnedPlace, CUDAPlace, Scope, XPUPlace
from .data import data
from .data_feeder import DataFeeder
from .dygraph import (
    Layer,
    disable_dygraph,
    disable_imperative,
    enable_dygraph,
    enable_imperative,
    load_dygraph,
    save_dygraph,
)
from .dygraph.conv import (  # noqa: F401 (names of fluid itself, outside its __all__)
    BilinearTensorProduct,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
)
from .dygraph.nce import NCE  # noqa: F401 (outside __all__, as those below)
from .dygraph.nn import (  # noqa: F401 (names of fluid itself, outside its __all__)
    BatchNorm,
    Conv2D,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    LayerNorm,
    Linear,
    Pool2D,
    TreeConv,
)
from .dygraph.norms import InstanceNorm, PRelu, SpectralNorm  # noqa: F401 (as above)
from .dygraph.rnn import GRUUnit  # noqa: F401
from .executor import Executor, global_scope, scope_guard
from .framework import (
    ComplexVariable,
    Program,
    Variable,
    cpu_places,
    cuda_pinned_places,
    cuda_places,
    default_main_program,
    default_startup_program,
    device_guard,
    get_flags,
    in_dygraph_mode,
    is_compiled_with_cuda,
    is_compiled_with_xpu,
    load_op_library,
    name_scope,
    program_guard,
    require_version,
    set_flags,
    xpu_places,
)
from .input import embedding, one_hot
from .io import load, load_program_state, save, set_program_state
from .lod_tensor import create_lod_tensor, create_random_int_lodtensor
from .parallel_executor import ParallelExecutor
from .param_attr import ParamAttr, WeightNormParamAttr
from .transpiler import DistributeTranspiler, DistributeTranspilerConfig, memory_optimize, release_memory

LoDTensor = Tensor = _core.LoDTensor
_cuda_synchronize = core._cuda_synchronize
LoDTensorArray = _core.LoDTensorArray

__all__ = [
    "BuildStrategy",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CompiledProgram",
    "ComplexVariable",
    "DataFeedDesc",
    "DataFeeder",
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "ExecutionStrategy",
    "Executor",
    "LoDTensor",
    "LoDTensorArray",
    "ParallelExecutor",
    "ParamAttr",
    "Program",
    "Scope",
    "Tensor",
    "Variable",
    "WeightNormParamAttr",
    "XPUPlace",
    "append_backward",
    "backward",
    "clip",
    "compiler",
    "contrib",
    "core",
    "cpu_places",
    "create_lod_tensor",
    "create_random_int_lodtensor",
    "cuda_pinned_places",
    "cuda_places",
    "data",
    "data_feeder",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "disable_dygraph",
    "disable_imperative",
    "dygraph",
    "enable_dygraph",
    "enable_imperative",
    "load_dygraph",
    "save_dygraph",
    "embedding",
    "executor",
    "framework",
    "get_flags",
    "global_scope",
    "gradients",
    "in_dygraph_mode",
    "initializer",
    "io",
    "is_compiled_with_cuda",
    "is_compiled_with_xpu",
    "layers",
    "load",
    "load_op_library",
    "load_program_state",
    "lod_tensor",
    "memory_optimize",
    "name_scope",
    "nets",
    "optimizer",
    "one_hot",
    "param_attr",
    "profiler",
    "program_guard",
    "regularizer",
    "release_memory",
    "require_version",
    "save",
    "scope_guard",
    "set_flags",
    "set_program_state",
    "transpiler",
    "unique_name",
    "xpu_places",
]

_MODULES = (
    "average",
    "data_feed_desc",
    "dataset",
    "debugger",
    "device_worker",
    "entry_attr",
    "generator",
    "incubate",
    "install_check",
    "trainer_desc",
    "trainer_factory",
)
_LATER = {
    **{name: f"paddle.fluid.{name}" for name in _MODULES},
    **dict.fromkeys(("DatasetFactory", "InMemoryDataset", "QueueDataset"), "paddle.fluid.dataset"),
    "DataFeedDesc": "paddle.fluid.data_feed_desc",
}
__getattr__ = _getter(__name__, later=_LATER)
_speak()
