"""paddle.fluid.io: saving and loading under the names and signatures of Paddle 1.x."""

from __future__ import annotations

from paddle._basics.missing import getter
from paddle._programs import guards
from paddle._programs.program import Program
from paddle.batch import batch
from paddle.io.collate import default_collate_fn
from paddle.io.dataloader import DataLoader
from paddle.io.generator import PyReader
from paddle.reader.decorator import *  # noqa: F403
from paddle.reader.decorator import __all__ as _readers
from paddle.static.inference_folder import load_inference_model, save_inference_model
from paddle.static.inference_io import append_fetch_ops, prepend_feed_ops
from paddle.static.io import (  # noqa: F401 (tests and user code import them from here)
    _load_program_scope,
    _pack_loaded_dict,
    _unpack_saved_dict,
    load,
    load_program_state,
    save,
    set_program_state,
)
from paddle.static.vars_io import (  # noqa: F401 (the same)
    _load_distributed_persistables,
    _save_distributed_persistables,
    clone_var_in_block,
    get_program_parameter,
    get_program_persistable_vars,
    is_belong_to_optimizer,
    is_parameter,
    is_persistable,
    load_params,
    load_persistables,
    load_vars,
    save_params,
    save_persistables,
    save_vars,
    valid_program,
)

__all__ = [
    *_readers,
    "batch",
    "PyReader",
    "DataLoader",
    "default_collate_fn",
    "save_vars",
    "save_params",
    "save_persistables",
    "load_vars",
    "load_params",
    "load_persistables",
    "save_inference_model",
    "load_inference_model",
    "save",
    "load",
    "load_program_state",
    "set_program_state",
    "get_program_parameter",
    "get_program_persistable_vars",
    "is_parameter",
    "is_persistable",
    "is_belong_to_optimizer",
    "get_parameter_value",
    "get_parameter_value_by_name",
    "append_fetch_ops",
    "prepend_feed_ops",
]

_clone_var_in_block_ = clone_var_in_block
_get_valid_program = valid_program
__getattr__ = getter(
    __name__,
    dict.fromkeys(("_load_persistable_nodes", "_save_persistable_nodes"), "paddle.fluid.persistable_nodes"),
)


def get_parameter_value(para, executor):
    """The value of a parameter as an array.

    Raises:
        AssertionError: when it is no parameter.
    """
    assert is_parameter(para), "get_parameter_value: a Parameter is expected"
    program = Program()
    var = clone_var_in_block(program.global_block(), para)
    return executor.run(program, feed={}, fetch_list=[var])[0]


def get_parameter_value_by_name(name, executor, program=None):
    """The value of the parameter `name` of `program` (the default one when None) as an array."""
    program = guards.default_main_program() if program is None else program
    return get_parameter_value(program.global_block().var(name), executor)
