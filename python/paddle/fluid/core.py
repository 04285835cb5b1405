"""paddle.fluid.core: the native module, with the names that Paddle's own core has besides."""

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
from paddle.static.predictor import NativeConfig, PaddleBuf, PaddleDType, PaddleTensor

from .core_functions import (
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
from .core_functions import globals as _flag_values
from .core_gloo import Gloo
from .core_processes import (
    _erase_process_pids,
    _set_process_pids,
    _set_process_signal_handler,
    _throw_error_if_process_failed,
)

vars().update({name: getattr(_core, name) for name in dir(_core) if not name.startswith("__")})

globals = _flag_values
VarBase = _core.Tensor
Tensor = _core.LoDTensor
is_compiled_with_cuda = _place.is_compiled_with_cuda
get_cuda_device_count = _place.cuda_device_count
_cuda_synchronize = _place.cuda_synchronize


def get_int_stats() -> dict[str, int]:
    """Counters of this process: how many integers its data sets in memory have loaded."""
    return {"STAT_total_feasign_num_in_mem": _core.feed.integers_in_memory()}


def Scope() -> Any:  # noqa: N802 (a function in Paddle's core)
    """A new Scope."""
    return _core._Scope()


class Layer:
    """What layers of the core derive from; it computes nothing."""

    def forward(self, inputs: list) -> list:
        """No outputs."""
        return []


def kEmptyVarName() -> str:  # noqa: N802
    """The name that stands for no variable."""
    return _names.EMPTY_VAR_NAME


def kTempVarName() -> str:  # noqa: N802
    """The name of temporary variables."""
    return _names.TEMP_VAR_NAME


def kGradVarSuffix() -> str:  # noqa: N802
    """What goes after a variable's name for its gradient."""
    return _names.GRAD_VAR_SUFFIX


def kZeroVarSuffix() -> str:  # noqa: N802
    """What goes after a variable's name for zeros like it."""
    return _names.ZERO_VAR_SUFFIX


def kControlDepVarName() -> str:  # noqa: N802
    """What names of control dependencies start with."""
    return _names.CONTROL_DEP_VAR_PREFIX


def empty_var_name() -> str:
    """The name that stands for no variable."""
    return _names.EMPTY_VAR_NAME


def grad_var_suffix() -> str:
    """What goes after a variable's name for its gradient."""
    return _names.GRAD_VAR_SUFFIX


def op_support_gpu(op_type: str) -> bool:
    """Whether an operator can run on a CUDA device here: where there is CUDA, every operator of the table can."""
    return _place.is_compiled_with_cuda() and op_type in {op["type"] for op in _core.op_table()}


def has_grad_op_maker(op_type: str) -> bool:
    """Whether an operator says how its gradient is made."""
    return has_non_empty_grad_op_maker(op_type)


def get_op_attrs_default_value(op_type: bytes | str) -> dict[str, Any]:
    """The attributes of an operator that have defaults, with these.

    Raises:
        ValueError: for an operator that is not there.
    """
    name = op_type.decode() if isinstance(op_type, bytes) else op_type
    table = {op["type"]: op for op in _core.op_table()}
    if name not in table:
        raise ValueError(f'The operator: "{name}" is not registered.')
    return {a["name"]: a["default"] for a in table[name]["attrs"] if a.get("default") is not None}


def __unittest_throw_exception__() -> None:
    """What 2.0.2's tests of exceptions call: an EnforceNotMet."""
    raise _core.EnforceNotMet("This is a test of exception")


def has_infer_inplace(op_type: str) -> bool:
    """Whether an operator may write its output over an input of another name: outputs are reused here without that."""
    return False


def is_float16_supported(place: Any) -> bool:
    """Whether tests should compute in float16 at `place`: on CUDA devices."""
    return isinstance(place, CUDAPlace)


def supports_bfloat16() -> bool:
    """Whether oneDNN's bfloat16 kernels can run: it is not used, so False."""
    return False


def is_compiled_with_xpu() -> bool:
    """XPUs are not supported: False."""
    return False


def is_compiled_with_mkldnn() -> bool:
    """oneDNN is not used: False."""
    return False


def is_compiled_with_brpc() -> bool:
    """brpc is not used: False."""
    return False


def is_compiled_with_dist() -> bool:
    """Distributed training is built in: True."""
    return True


def get_feed_target_names(desc) -> list[str]:
    """The variables that the feed operators of a ProgramDesc fill."""
    return desc.get_feed_target_names()


def get_variable_tensor(scope, name: str):
    """The tensor of the variable `name` of `scope`."""
    var = scope.find_var(name)
    if var is None:
        raise ValueError(f"Variable {name} is not found in the scope")
    return var.get_tensor()


# The passes of Paddle's C++ core: here a plan is made from a Program and rewritten natively.
_PASSES = ("Pass", "PassBuilder", "get_pass")
_GRAPH = "Graph Node build_adjacency_list graph_num graph_safe_remove_nodes has_circle topology_sort"
_HISTORY = """
OpAttrInfo OpBugfixInfo OpCheckpoint OpInputOutputInfo OpUpdateType OpVersion OpVersionDesc get_op_version_map
"""
_of_few = getter(
    __name__,
    {
        **dict.fromkeys(_GRAPH.split(), "paddle._programs.graph"),
        **dict.fromkeys(_HISTORY.split(), "paddle.utils.op_version"),
    },
)


def __getattr__(name: str) -> Any:
    if name in _PASSES:
        raise OperatorMissing(
            f"fluid.core.{name}: there are no native passes here that Python could apply to a graph; those of a "
            "Program's plan are chosen by BuildStrategy and OAR_PLAN_PASSES"
        )
    return _of_few(name)


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
