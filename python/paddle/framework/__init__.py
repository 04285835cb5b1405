"""Static Programs, modes, element types, argument checks: what the rest of the Paddle API stands on."""

from paddle import _core as core

from . import core_patch, random
from .block import Block
from .dtypes import convert_np_dtype_to_dtype_, dtype_is_floating
from .guards import default_main_program, default_startup_program, name_scope, program_guard
from .math_op_patch import monkey_patch_variable
from .mode import cpu_places, cuda_places, device_guard, in_dygraph_mode, xpu_places
from .names import OpRole, grad_var_name
from .op_proto import OpProtoHolder
from .operator import Operator
from .parameter import ParamBase
from .program import Program
from .variable import Parameter, Variable

core_patch.install()
monkey_patch_variable()

__all__ = [
    "Block",
    "OpProtoHolder",
    "OpRole",
    "Operator",
    "ParamBase",
    "Parameter",
    "Program",
    "Variable",
    "convert_np_dtype_to_dtype_",
    "cpu_places",
    "cuda_places",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "dtype_is_floating",
    "grad_var_name",
    "in_dygraph_mode",
    "name_scope",
    "program_guard",
    "xpu_places",
]
