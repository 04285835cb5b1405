"""paddle.fluid.io: saving and loading under the names and signatures of Paddle 1.x."""

from __future__ import annotations

import logging
import os
from typing import Any

from paddle._basics.dtypes import VarType
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


def get_parameter_value(para, executor):
    """The value of a parameter as an array.

    Raises:
        AssertionError: if `para` is not a parameter.
    """
    assert is_parameter(para), "get_parameter_value: a Parameter is expected"
    program = Program()
    var = clone_var_in_block(program.global_block(), para)
    return executor.run(program, feed={}, fetch_list=[var])[0]


def get_parameter_value_by_name(name, executor, program=None):
    """The value of the parameter `name` of `program` (the default one when None) as an array."""
    program = guards.default_main_program() if program is None else program
    return get_parameter_value(program.global_block().var(name), executor)


def _graph_variables(graph: Any) -> list:
    """A Variable of a new Program for each persistable variable with storage."""
    descs = {n.name(): n.var() for n in graph.all_persistable_nodes()}
    block = Program().global_block()
    return [
        block.create_var(
            name=name,
            shape=desc.shape(),
            dtype=desc.dtype(),
            type=desc.type(),
            lod_level=desc.lod_level(),
            persistable=True,
        )
        for name, desc in descs.items()
        if desc.type() not in (VarType.RAW, VarType.READER)
    ]


def _save_persistable_nodes(executor, dirname, graph) -> None:
    """Saves the persistable variables of an IrGraph to the folder `dirname`."""
    save_vars(executor=executor, dirname=dirname, vars=_graph_variables(graph))


def _load_persistable_nodes(executor, dirname, graph) -> None:
    """Loads files of `_save_persistable_nodes`; variables without a file keep their values, with a warning."""
    variables = _graph_variables(graph)
    there = [v for v in variables if os.path.exists(os.path.join(dirname, v.name))]
    for gone in sorted({v.name for v in variables} - {v.name for v in there}):
        logging.getLogger(__name__).warning("there is no file of the variable %s in %s", gone, dirname)
    load_vars(executor=executor, dirname=dirname, vars=there)
