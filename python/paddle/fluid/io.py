"""paddle.fluid.io: saving and loading under the names and signatures of Paddle 1.x."""

from __future__ import annotations

import os
import warnings

from paddle._basics.mode import static_only
from paddle._persistence.whole_files import saving
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.variable import Variable
from paddle.batch import batch
from paddle.io.collate import default_collate_fn
from paddle.io.dataloader import DataLoader
from paddle.io.generator import PyReader
from paddle.reader.decorator import *  # noqa: F403
from paddle.reader.decorator import __all__ as _readers
from paddle.static.inference_io import (
    append_fetch_ops,
    interface_of,
    load_folder,
    prepend_feed_ops,
    pruned_for_inference,
    write_persistables,
)
from paddle.static.io import (  # noqa: F401 (tests and user code import them from here)
    _load_program_scope,
    _pack_loaded_dict,
    _unpack_saved_dict,
    load,
    load_program_state,
    save,
    set_program_state,
)
from paddle.static.vars_io import (
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


@static_only
def save_inference_model(
    dirname,
    feeded_var_names,
    target_vars,
    executor,
    main_program=None,
    model_filename=None,
    params_filename=None,
    export_for_deployment=True,
    program_only=False,
) -> list[str]:
    """Save what gives `target_vars` from the fed variables, program and parameters, in a folder.

    Args:
        dirname (str): the folder; made when missing.
        feeded_var_names (list of str): what the model is fed with.
        target_vars (list of Variable): what it gives.
        executor (Executor): runs the saving operators.
        main_program (Program, optional): the default one when None.
        model_filename (str, optional): ``__model__`` when None.
        params_filename (str, optional): one file for all parameters; a file for each when None.
        export_for_deployment (bool): False saves the program as it is, for more training.
        program_only (bool): leave the parameters out.

    Returns:
        list of str: the names of the outputs.

    Raises:
        ValueError: for names or variables that are none.
    """
    if isinstance(feeded_var_names, str):
        feeded_var_names = [feeded_var_names]
    elif export_for_deployment and not all(isinstance(n, str) for n in feeded_var_names):
        raise ValueError("feed_var_names must be a list of str")
    if isinstance(target_vars, Variable):
        target_vars = [target_vars]
    elif export_for_deployment and not (target_vars and all(isinstance(v, Variable) for v in target_vars)):
        raise ValueError("target_vars must be a list of Variable")
    program = valid_program(main_program)
    name = os.path.basename(model_filename) if model_filename is not None else "__model__"
    if export_for_deployment:
        saved, names = pruned_for_inference(program, list(feeded_var_names), list(target_vars))
        saved._copy_dist_param_info_from(program)
    else:
        saved, names, name = program, [v.name for v in target_vars], name + ".main_program"
    with saving(os.path.normpath(dirname)) as files:
        if program_only:
            warnings.warn("save_inference_model: program_only=True leaves the parameters out", stacklevel=3)
        else:
            params = os.path.basename(params_filename) if params_filename is not None else None
            write_persistables(executor, saved, files, params)
        files.write(name, saved.desc.serialize_to_string())
    return names


@static_only
def load_inference_model(dirname, executor, model_filename=None, params_filename=None, pserver_endpoints=None) -> list:
    """Load what :func:`save_inference_model` saved, of this package or real Paddle.

    Args:
        dirname (str|None): the folder; None when the file names are the bytes themselves.
        executor (Executor): runs the loading operators.
        model_filename (str, optional): ``__model__`` when None.
        params_filename (str, optional): the file of all parameters; a file for each when None.
        pserver_endpoints (list of str, optional): parameter servers to ask instead of those in the file.

    Returns:
        list: the Program, the names of what is fed, the Variables to fetch.

    Raises:
        ValueError: when there is no such folder. RuntimeError: when the parameters are not those of the model.
    """
    if dirname is None:
        if params_filename is None:
            raise ValueError("save_inference_model: params_filename must be given where there is no dirname")
        program = Program.parse_from_string(model_filename)
        load_persistables(executor, None, program, params_filename)
        found = interface_of(program)
    else:
        folder = os.path.normpath(dirname)
        if not os.path.isdir(folder):
            raise ValueError(f"There is no directory named '{dirname}'")
        params_filename = os.path.basename(params_filename) if params_filename is not None else None
        path = os.path.join(folder, os.path.basename(model_filename or "__model__"))
        found = load_folder(folder, path, executor, params_filename)
    if pserver_endpoints:
        for op in found[0].global_block().ops:
            if op.has_attr("epmap"):
                op._set_attr("epmap", pserver_endpoints)
    return found


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
