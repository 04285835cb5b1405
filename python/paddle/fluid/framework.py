"""paddle.fluid.framework: Programs, variables and modes under the names of 1.x."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from paddle._basics import mode as _mode
from paddle._basics import unique_name
from paddle._basics.dtypes import convert_np_dtype_to_dtype_, dtype_is_floating
from paddle._basics.flags import get_flags, set_flags
from paddle._basics.missing import getter
from paddle._basics.mode import (
    _cpu_num,
    _cuda_ids,
    _current_expected_place,
    _dygraph_guard,
    _dygraph_place_guard,
    _dygraph_tracer,
    _get_paddle_place,
    _get_paddle_place_list,
    _set_dygraph_tracer_expected_place,
    _set_expected_place,
    cpu_places,
    cuda_pinned_places,
    cuda_places,
    device_guard,
    dygraph_not_support,
    dygraph_only,
    fake_interface_only,
    in_dygraph_mode,
    is_compiled_with_cuda,
    is_compiled_with_xpu,
    static_only,
    switch_device,
    xpu_places,
)
from paddle._basics.names import (
    CONTROL_DEP_VAR_PREFIX,
    EMPTY_VAR_NAME,
    GRAD_VAR_SUFFIX,
    TEMP_VAR_NAME,
    ZERO_VAR_SUFFIX,
    generate_control_dev_var_name,
    grad_var_name,
)
from paddle._basics.op_proto import OpProtoHolder, get_all_op_protos
from paddle._basics.tracer import Tracer
from paddle._basics.version import require_version
from paddle._programs import guards as _guards
from paddle._programs import program as _program
from paddle._programs.block import Block, _varbase_creator
from paddle._programs.guards import (
    _get_var,
    default_main_program,
    default_startup_program,
    program_guard,
    switch_main_program,
    switch_startup_program,
)
from paddle._programs.name_scope import NameScope, _full_name_scope, name_scope
from paddle._programs.operator import Operator
from paddle._programs.parameter import ParamBase
from paddle._programs.program import Program
from paddle._programs.variable import Parameter, ParameterMetaClass, Variable, VariableMetaClass
from paddle.utils.op_library import load_op_library

from . import core
from .complex_variable import ComplexVariable

_dygraph_not_support_, _dygraph_only_ = dygraph_not_support, dygraph_only
_static_only_, _fake_interface_only_ = static_only, fake_interface_only

__all__ = [
    "Program",
    "default_startup_program",
    "default_main_program",
    "program_guard",
    "name_scope",
    "cuda_places",
    "cpu_places",
    "xpu_places",
    "cuda_pinned_places",
    "in_dygraph_mode",
    "is_compiled_with_cuda",
    "is_compiled_with_xpu",
    "Variable",
    "ComplexVariable",
    "load_op_library",
    "require_version",
    "device_guard",
    "set_flags",
    "get_flags",
]

#: names that other modules rebind: read on every access
_ELSEWHERE = {
    "_dygraph_tracer_": _mode,
    "_global_expected_place_": _mode,
    "_current_device": _mode,
    "_main_program_": _guards,
    "_startup_program_": _guards,
    "_name_scope": _guards,
    "global_prog_seed": _program,
}
_legacy_name = getter(__name__)


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(_ELSEWHERE[name], name)
    return _legacy_name(name)


def deprecate_stat_dict(func: Any) -> Any:
    """Decorator that passes the deprecated argument `stat_dict` as `state_dict`."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if "stat_dict" in kwargs:
            text = "The argument `stat_dict` has deprecated, please change it to `state_dict`."
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            kwargs["state_dict"] = kwargs.pop("stat_dict")
        return func(*args, **kwargs)

    return wrapper


def _var_base_to_np(var_base: Any) -> Any:
    """Deprecated; see ``Tensor.numpy()``."""
    warnings.warn("fluid.framework._var_base_to_np is old: use Tensor.numpy() instead", stacklevel=2)
    return var_base.numpy()


# Names that tests and user code import from this module.
_IMPORTED = (
    Block,
    CONTROL_DEP_VAR_PREFIX,
    EMPTY_VAR_NAME,
    GRAD_VAR_SUFFIX,
    NameScope,
    OpProtoHolder,
    Operator,
    ParamBase,
    Parameter,
    ParameterMetaClass,
    TEMP_VAR_NAME,
    Tracer,
    VariableMetaClass,
    ZERO_VAR_SUFFIX,
    _cpu_num,
    _cuda_ids,
    _current_expected_place,
    _dygraph_guard,
    _dygraph_place_guard,
    _dygraph_tracer,
    _full_name_scope,
    _get_paddle_place,
    _get_paddle_place_list,
    _get_var,
    _set_dygraph_tracer_expected_place,
    _set_expected_place,
    _varbase_creator,
    convert_np_dtype_to_dtype_,
    core,
    dtype_is_floating,
    generate_control_dev_var_name,
    get_all_op_protos,
    grad_var_name,
    switch_device,
    switch_main_program,
    switch_startup_program,
    unique_name,
)
