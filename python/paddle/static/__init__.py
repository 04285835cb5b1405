"""paddle.static: functions that build, run, save and load static Programs."""

import paddle._core as _core
from paddle._basics.mode import cpu_places, cuda_places, device_guard, xpu_places
from paddle._programs.backward import append_backward, gradients
from paddle._programs.guards import default_main_program, default_startup_program, program_guard
from paddle._programs.name_scope import name_scope
from paddle._programs.program import Program
from paddle._programs.scope import global_scope, scope_guard
from paddle._programs.variable import Variable
from paddle.nn.param_attr import WeightNormParamAttr

from . import amp, nn
from .compiler import CompiledProgram
from .creation import InputSpec, create_global_var, create_parameter, data
from .executor import Executor
from .inference_io import (
    deserialize_persistables,
    deserialize_program,
    load_from_file,
    load_inference_model,
    normalize_program,
    save_inference_model,
    save_to_file,
    serialize_persistables,
    serialize_program,
)
from .io import load, load_program_state, load_vars, save, save_vars, set_program_state
from .metric import accuracy, auc
from .parallel_executor import ParallelExecutor
from .pyfunc import Print, py_func
from .strategies import BuildStrategy, ExecutionStrategy

Scope = _core._Scope

__all__ = [
    "append_backward",
    "gradients",
    "Executor",
    "global_scope",
    "scope_guard",
    "BuildStrategy",
    "CompiledProgram",
    "Print",
    "py_func",
    "ExecutionStrategy",
    "name_scope",
    "ParallelExecutor",
    "program_guard",
    "WeightNormParamAttr",
    "default_main_program",
    "default_startup_program",
    "Program",
    "data",
    "InputSpec",
    "save",
    "load",
    "save_inference_model",
    "load_inference_model",
    "load_program_state",
    "set_program_state",
    "cpu_places",
    "cuda_places",
    "xpu_places",
    "Variable",
    "load_vars",
    "save_vars",
    "accuracy",
    "auc",
]

# names that 2.0.2 has outside of __all__
_ALSO = (
    Scope,
    amp,
    create_global_var,
    create_parameter,
    deserialize_persistables,
    deserialize_program,
    device_guard,
    load_from_file,
    nn,
    normalize_program,
    save_to_file,
    serialize_persistables,
    serialize_program,
)
