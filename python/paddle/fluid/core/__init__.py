"""paddle.fluid.core: the native module, with the further names of Paddle's C++ core."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle._basics import names as _names
from paddle._basics import place as _place
from paddle._basics.missing import OperatorMissing, getter
from paddle._basics.names import op_proto_and_checker_maker
from paddle._basics.op_proto import has_non_empty_grad_op_maker
from paddle._basics.place import CPUPlace, CUDAPinnedPlace, CUDAPlace, Place, XPUPlace
from paddle.distributed.parallel import ParallelStrategy
from paddle.static.datasets import BoxPS, Dataset
from paddle.static.predictor import NativeConfig, NativePredictor, PaddleBuf, PaddleDType, PaddleTensor

from .functions import (
    DeviceType,
    Fleet,
    _create_loaded_parameter,
    _set_eager_deletion_mode,
    _set_fuse_parameter_group_size,
    _set_fuse_parameter_memory_size,
    assign_group_by_size,
    get_fetch_variable,
    infer_no_need_buffer_slots,
    run_cmd,
    set_feed_variable,
)
from .functions import globals as _flag_values
from .gloo import Gloo
from .processes import (
    _erase_process_pids,
    _set_process_pids,
    _set_process_signal_handler,
    _throw_error_if_process_failed,
)

vars().update({name: getattr(_core, name) for name in dir(_core) if not name.startswith("__")})

globals = _flag_values
NativePaddlePredictor = NativePredictor
VarBase = _core.Tensor
Tensor = _core.LoDTensor
is_compiled_with_cuda = _place.is_compiled_with_cuda
get_cuda_device_count = _place.cuda_device_count
_cuda_synchronize = _place.cuda_synchronize
set_cublas_switch = _place.set_cublas_switch
get_cublas_switch = _place.get_cublas_switch
set_cudnn_switch = _place.set_cudnn_switch
get_cudnn_switch = _place.get_cudnn_switch


def get_int_stats() -> dict[str, int]:
    """Counters of this process: the number of integers loaded by in-memory data sets."""
    return {"STAT_total_feasign_num_in_mem": _core.feed.integers_in_memory()}


def Scope() -> Any:  # noqa: N802 (a function in Paddle's core)
    """A new Scope."""
    return _core._Scope()


class Layer:
    """Base class of the core's layers; it computes nothing."""

    def forward(self, inputs: list) -> list:
        """No outputs."""
        return []


def kEmptyVarName() -> str:  # noqa: N802
    """The name of an absent variable."""
    return _names.EMPTY_VAR_NAME


def kTempVarName() -> str:  # noqa: N802
    """The name of temporary variables."""
    return _names.TEMP_VAR_NAME


def kGradVarSuffix() -> str:  # noqa: N802
    """The suffix of a gradient's name."""
    return _names.GRAD_VAR_SUFFIX


def kZeroVarSuffix() -> str:  # noqa: N802
    """The suffix of the name of a variable of zeros."""
    return _names.ZERO_VAR_SUFFIX


def kControlDepVarName() -> str:  # noqa: N802
    """The prefix of names of control dependencies."""
    return _names.CONTROL_DEP_VAR_PREFIX


def empty_var_name() -> str:
    """The name of an absent variable."""
    return _names.EMPTY_VAR_NAME


def grad_var_suffix() -> str:
    """The suffix of a gradient's name."""
    return _names.GRAD_VAR_SUFFIX


def op_support_gpu(op_type: str) -> bool:
    """Whether an operator runs on CUDA devices: with CUDA, every operator of the table does."""
    return _place.is_compiled_with_cuda() and op_type in {op["type"] for op in _core.op_table()}


def has_grad_op_maker(op_type: str) -> bool:
    """Whether an operator has a gradient rule."""
    return has_non_empty_grad_op_maker(op_type)


def get_op_attrs_default_value(op_type: bytes | str) -> dict[str, Any]:
    """The attributes of an operator that have defaults, and these defaults.

    Raises:
        ValueError: if the operator does not exist.
    """
    name = op_type.decode() if isinstance(op_type, bytes) else op_type
    table = {op["type"]: op for op in _core.op_table()}
    if name not in table:
        raise ValueError(f'The operator: "{name}" is not registered.')
    return {a["name"]: a["default"] for a in table[name]["attrs"] if a.get("default") is not None}


def __unittest_throw_exception__() -> None:
    """Raises EnforceNotMet; for tests."""
    raise _core.EnforceNotMet("This is a test of exception")


def has_infer_inplace(op_type: str) -> bool:
    """False: the engine reuses outputs without this declaration."""
    return False


def is_float16_supported(place: Any) -> bool:
    """Whether `place` computes in float16: CUDA devices do."""
    return isinstance(place, CUDAPlace)


def supports_bfloat16() -> bool:
    """False: oneDNN is not used."""
    return False


def is_compiled_with_xpu() -> bool:
    """False: XPUs are not supported."""
    return False


def is_compiled_with_mkldnn() -> bool:
    """False: oneDNN is not used."""
    return False


def is_compiled_with_brpc() -> bool:
    """False: brpc is not used."""
    return False


def is_compiled_with_dist() -> bool:
    """True: distributed training is built in."""
    return True


def get_feed_target_names(desc) -> list[str]:
    """The names of the variables that the feed operators of a ProgramDesc write."""
    return desc.get_feed_target_names()


def get_variable_tensor(scope, name: str):
    """The tensor of the variable `name` of `scope`."""
    var = scope.find_var(name)
    if var is None:
        raise ValueError(f"Variable {name} is not found in the scope")
    return var.get_tensor()


# Passes of Paddle's C++ core; here the engine rewrites its own execution plan.
_PASSES = ("Pass", "PassBuilder", "get_pass")
_INFERENCE = {
    "AnalysisConfig": "paddle.inference.config",
    "MkldnnQuantizerConfig": "paddle.inference.config",
    "AnalysisPredictor": "paddle.inference.analysis",
    "PaddlePredictor": "paddle.inference.analysis",
    "create_paddle_predictor": "paddle.inference.analysis",
    "paddle_tensor_to_bytes": "paddle.inference.analysis",
    "create_predictor": "paddle.inference.predictor",
    "PaddleInferPredictor": "paddle.inference.predictor:Predictor",
    "PredictorPool": "paddle.inference.predictor",
    "ZeroCopyTensor": "paddle.inference.handles:Tensor",
    "PaddleInferTensor": "paddle.inference.handles:Tensor",
    "PaddlePlace": "paddle.inference.data_types:PlaceType",
    "get_version": "paddle.inference.data_types",
    "get_num_bytes_of_data_type": "paddle.inference.data_types",
    "paddle_dtype_size": "paddle.inference.data_types",
    **dict.fromkeys(
        ("PaddlePassBuilder", "PassStrategy", "CpuPassStrategy", "GpuPassStrategy"), "paddle.inference.pass_builder"
    ),
}
_GRAPH = "Graph Node build_adjacency_list graph_num graph_safe_remove_nodes has_circle topology_sort"
_HISTORY = """
OpAttrInfo OpBugfixInfo OpCheckpoint OpInputOutputInfo OpUpdateType OpVersion OpVersionDesc get_op_version_map
"""
_on_first_use = getter(
    __name__,
    {
        **dict.fromkeys(_GRAPH.split(), "paddle._programs.graph"),
        **dict.fromkeys(_HISTORY.split(), "paddle.utils.op_version"),
        **_INFERENCE,
    },
)


def __getattr__(name: str) -> Any:
    if name in _PASSES:
        raise OperatorMissing(
            f"fluid.core.{name}: native passes cannot be applied to a graph from Python; the passes over a "
            "Program's plan are chosen by BuildStrategy and OAR_PLAN_PASSES"
        )
    return _on_first_use(name)


__all__ = [
    "BoxPS",
    "Dataset",
    "ParallelStrategy",
    "has_non_empty_grad_op_maker",
    "op_proto_and_checker_maker",
    "CPUPlace",
    "CUDAPlace",
    "CUDAPinnedPlace",
    "Place",
    "XPUPlace",
    "Scope",
]
