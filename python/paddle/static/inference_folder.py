"""Inference models in the format of 1.x: a folder with the Program and its parameters, in one file or one file each."""

from __future__ import annotations

import os
import warnings

from paddle._basics.mode import static_only
from paddle._persistence.atomic_files import saving
from paddle._programs.program import Program
from paddle._programs.variable import Variable

from .inference_io import interface_of, load_folder, pruned_for_inference, write_persistables
from .vars_io import load_persistables, valid_program

__all__ = ["save_inference_model", "load_inference_model"]


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
    """Save the program that computes `target_vars` from the fed variables, and its parameters, in a folder.

    Args:
        dirname (str): the folder; created when missing.
        feeded_var_names (list of str): the model's inputs.
        target_vars (list of Variable): the model's outputs.
        executor (Executor): runs the saving operators.
        main_program (Program, optional): the default one when None.
        model_filename (str, optional): ``__model__`` when None.
        params_filename (str, optional): one file for all parameters; a file for each when None.
        export_for_deployment (bool): False saves the program unchanged, for further training.
        program_only (bool): do not save the parameters.

    Returns:
        list of str: the names of the outputs.

    Raises:
        ValueError: for arguments that are not names or Variables.
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
    """Load a model that :func:`save_inference_model` of this package or Paddle saved.

    Args:
        dirname (str|None): the folder; None when the file names are the bytes themselves.
        executor (Executor): runs the loading operators.
        model_filename (str, optional): ``__model__`` when None.
        params_filename (str, optional): the file of all parameters; a file for each when None.
        pserver_endpoints (list of str, optional): parameter servers to use instead of those in the file.

    Returns:
        list: the Program, the names to feed, the Variables to fetch.

    Raises:
        ValueError: when the folder does not exist. RuntimeError: when the parameters do not match the model.
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
