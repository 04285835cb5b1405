"""paddle.fluid: the API of Paddle 1.x, which renames arguments and calls the functions of 2.0."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

import paddle._core as _core
from paddle._dispatch.math_op_patch import monkey_patch_variable  # noqa: F401 (outside __all__, as upstream)
from paddle._programs.backward import append_backward, gradients
from paddle._programs.scope import global_scope, scope_guard
from paddle.nn.initializer.base import set_global_initializer  # noqa: F401 (as above)
from paddle.nn.param_attr import ParamAttr, WeightNormParamAttr
from paddle.static.compiler import CompiledProgram
from paddle.static.executor import Executor
from paddle.static.feeder import DataFeeder, create_lod_tensor, create_random_int_lodtensor
from paddle.static.parallel_executor import ParallelExecutor
from paddle.static.strategies import BuildStrategy, ExecutionStrategy
from paddle.tensor.tensor import monkey_patch_math_varbase as monkey_patch_varbase  # noqa: F401 (as above)

from . import (
    contrib,
    core,
    default_scope_funcs,
    dygraph,
    dygraph_utils,
    evaluator,
    framework,
    input,
    io,
    layers,
    log_helper,
    metrics,
    nets,
    op,
    optimizer,
    transpiler,
    wrapped_decorator,
)
from .core import CPUPlace, CUDAPinnedPlace, CUDAPlace, Scope, XPUPlace
from .data import data
from .dygraph import (
    Layer,
    disable_dygraph,
    disable_imperative,
    enable_dygraph,
    enable_imperative,
    load_dygraph,
    save_dygraph,
)
from .dygraph.nn import (  # noqa: F401 (names of fluid itself, outside its __all__)
    NCE,
    BatchNorm,
    BilinearTensorProduct,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    GRUUnit,
    InstanceNorm,
    LayerNorm,
    Linear,
    Pool2D,
    PRelu,
    SpectralNorm,
    TreeConv,
)
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
from .transpiler import DistributeTranspiler, DistributeTranspilerConfig, memory_optimize, release_memory

if _TYPE_CHECKING:  # modules and names of the table of legacy names, which the import hook resolves
    from paddle._basics import unique_name as unique_name
    from paddle._programs import backward as backward
    from paddle.distributed import entry_attr as entry_attr
    from paddle.distributed.ps import communicator as communicator
    from paddle.distributed.ps import lookup_tables as distribute_lookup_table
    from paddle.io import generator as reader
    from paddle.nn import clip as clip
    from paddle.nn import layer_helper as layer_helper
    from paddle.nn import layer_helper_base as layer_helper_base
    from paddle.nn import param_attr as param_attr
    from paddle.nn.initializer import base as initializer
    from paddle.optimizer import regularization as regularizer
    from paddle.static import compiler as compiler
    from paddle.static import executor as executor
    from paddle.static import feeder as data_feeder
    from paddle.static import feeder as lod_tensor
    from paddle.static import install_check as install_check
    from paddle.static import parallel_executor as parallel_executor
    from paddle.static.datasets import device_worker as device_worker
    from paddle.static.datasets import trainer_desc as trainer_desc
    from paddle.static.datasets import trainer_factory as trainer_factory
    from paddle.utils import profiler as profiler

    from . import average, data_feed_desc, dataset, debugger, generator, incubate
    from .data_feed_desc import DataFeedDesc
    from .dataset import DatasetFactory, InMemoryDataset, QueueDataset

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
