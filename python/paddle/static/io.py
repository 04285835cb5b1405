"""save, load, load_program_state, set_program_state: the state of a Program as pickled arrays."""

from __future__ import annotations

import contextlib
import os
import warnings

import numpy as np

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.missing import getter as _getter
from paddle._basics.mode import static_only
from paddle._basics.place import CPUPlace
from paddle._persistence import array_pickler, safe_pickle
from paddle._persistence.atomic_files import file_names, read_together, saving, where
from paddle._persistence.pieces import join_arrays as _pack_loaded_dict
from paddle._persistence.pieces import split_arrays as _unpack_saved_dict
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.scope import global_scope, scope_guard
from paddle._programs.variable import Variable, isinstance_of

from .executor import Executor
from .vars_io import check_fit, is_belong_to_optimizer, is_parameter, is_persistable, load_vars, save_vars

__all__ = ["save", "load", "load_program_state", "set_program_state", "save_vars", "load_vars"]

_SUFFIXES = (".pdparams", ".pdopt", ".pdmodel")


def _prefix(path: str) -> str:
    for suffix in _SUFFIXES:
        if path.endswith(suffix):
            return path[: -len(suffix)]
    return path


def _value(name: str) -> np.ndarray:
    found = global_scope().find_var(name)
    assert found is not None, f"variable '{name}' is not in the scope: has the startup program run?"
    return np.array(found.get_tensor())


@static_only
def save(program, model_path, pickle_protocol=2) -> None:
    """Save parameters, optimizer state and program as <path>.pdparams, <path>.pdopt and <path>.pdmodel.

    Args:
        program (Program): its state in the global Scope is saved.
        model_path (str): folder and name, no suffix.
        pickle_protocol (int): 2 to 4.

    Raises:
        AssertionError: for an empty name. ValueError: for another protocol.
    """
    assert os.path.basename(model_path), "save: model_path must end in a file name (dirname/filename), but it is empty"
    if not isinstance(pickle_protocol, int):
        raise ValueError(f"save: protocol must be an int, got {type(pickle_protocol)}")
    if not 1 < pickle_protocol < 5:
        raise ValueError(f"save: protocol must be 2, 3 or 4, got {pickle_protocol}")
    variables = list(program.list_vars())
    parameters = {v.name: _value(v.name) for v in variables if is_parameter(v)}
    state = {v.name: _value(v.name) for v in variables if is_belong_to_optimizer(v)}
    desc = program.clone().desc
    desc.flush()
    desc._set_version()
    core.save_op_version_info(desc)
    folder, name = os.path.split(model_path)
    with saving(folder) as files:
        with open(files.path(name + ".pdparams"), "wb") as file:
            array_pickler.dump(_unpack_saved_dict(parameters, pickle_protocol), file, pickle_protocol)
        with open(files.path(name + ".pdopt"), "wb") as file:
            array_pickler.dump(state, file, pickle_protocol)
        files.write(name + ".pdmodel", desc.serialize_to_string())


def _read(path: str):
    def joined(state):
        if not isinstance(state, dict):
            raise TypeError(f"a dict is expected, but it holds a {type(state).__name__}")
        return _pack_loaded_dict(state)

    return safe_pickle.load_file(where(path), joined)


def _set(name: str, array, create: bool) -> None:
    scope = global_scope()
    var = scope.var(name) if create else scope.find_var(name)
    assert var is not None, f"variable '{name}' is not in the scope: has the startup program run?"
    var.get_tensor().set(np.asarray(array))  # where its elements are


@static_only
def load(program, model_path, executor=None, var_list=None) -> None:
    """Load files of :func:`save`, or of save_params, save_persistables and save_vars.

    Args:
        program (Program): its variables in the global Scope are set.
        model_path (str): folder and name; a folder or file of the older functions.
        executor (Executor, optional): needed for the older functions' files; it also creates missing variables.
        var_list (list of Variable, optional): the variables to load; needed for a single file of an older function.

    Raises:
        AssertionError: when a variable is not in the file. RuntimeError: when an array does not match its variable, or
            older files cannot be loaded.
    """
    assert executor is None or isinstance(executor, Executor)
    prefix = _prefix(model_path)
    parameter_file = prefix + ".pdparams"
    if not os.path.exists(where(parameter_file)) and (
        executor is None or os.path.isdir(model_path) or os.path.isfile(model_path)
    ):
        _load_older(program, model_path, executor, var_list)
        return
    variables = list(program.list_vars())
    groups = [([v for v in variables if is_parameter(v)], parameter_file)]
    state = [v for v in variables if is_belong_to_optimizer(v)]
    if state:
        assert os.path.exists(where(prefix + ".pdopt")), f"load: there is no file {prefix}.pdopt"
        groups.append((state, prefix + ".pdopt"))
    paths = [path for _, path in groups]
    read = read_together(paths, lambda: [_read(path) for path in paths])
    # all arrays are checked before the first is set
    for (group, path), arrays in zip(groups, read, strict=True):
        for var in group:
            assert var.name in arrays, f"load: file {path} has no variable '{var.name}'"
            if not isinstance(arrays[var.name], (np.ndarray, np.generic)):
                raise RuntimeError(f"load: '{var.name}' of file {path} is no array")
            check_fit(var, arrays[var.name].shape, None, path)
    for (group, _), arrays in zip(groups, read, strict=True):
        for var in group:
            _set(var.name, arrays[var.name], create=executor is not None)


def _load_older(program, path: str, executor, var_list) -> None:
    if executor is None:
        raise ValueError(
            f"load_program_state: {_prefix(path)}.pdparams does not exist; reading what save_params, save_persistables "
            "or save_vars wrote needs an executor"
        )
    folder, filename = path, None
    if os.path.isfile(path):
        if var_list is None:
            raise ValueError(
                "load_program_state: var_list must be given for what save_params, save_persistables or save_vars wrote"
            )
        known = {v.name for v in program.list_vars()}
        for var in var_list:
            if var.name not in known:
                raise LookupError(f"load: variable '{var.name}' of the file is not in the Program")
        folder, filename = os.path.split(path)
        wanted = list(var_list)
    else:
        names = None if var_list is None else {v.name for v in var_list}
        files = file_names(path)
        wanted = [v for v in program.list_vars() if v.name in files and (names is None or v.name in names)]
        unused = files - {v.name for v in wanted}
        if unused:
            warnings.warn(f"files of no variable: {' '.join(sorted(unused))}", stacklevel=4)
    try:
        load_vars(executor, folder, vars=wanted, filename=filename)
    except RuntimeError:
        raise
    except Exception as error:
        raise RuntimeError(
            "load: can not read the model file: is it one of save_params, save_persistables or save_vars?"
        ) from error


@contextlib.contextmanager
def _load_program_scope(main=None, startup=None, scope=None):
    """Static mode with new Programs, a new Scope and a new name generator."""
    with (
        scope_guard(scope or core._Scope()),
        guards.program_guard_unchecked(main or Program(), startup or Program()),
        unique_name.guard(),
        mode._dygraph_guard(None),
    ):
        yield


def load_program_state(model_path, var_list=None) -> dict[str, np.ndarray]:
    """The state in files of :func:`save`, or of save_params, save_persistables and save_vars, as arrays.

    Args:
        model_path (str): folder and name; a folder or file of the older functions.
        var_list (list of Variable, optional): the variables to load; needed for a single file of an older function.

    Returns:
        dict: name to array.

    Raises:
        AssertionError: when the file does not exist.
    """
    prefix = _prefix(model_path)
    parameter_file = prefix + ".pdparams"
    if os.path.exists(where(parameter_file)):

        def read():
            state = _read(parameter_file)
            if os.path.exists(where(prefix + ".pdopt")):
                state.update(_read(prefix + ".pdopt"))
            return state

        return read_together([parameter_file, prefix + ".pdopt"], read)
    if not os.path.exists(where(model_path)):
        raise AssertionError(f"load: there is no file {parameter_file}")
    if var_list is None and os.path.isfile(model_path):
        raise ValueError("load: var_list must be given where model_path is a file")
    for var in var_list or ():
        if not isinstance_of(var, Variable):
            raise TypeError("load: var_list must hold Variables")
    described = [(v.name, v.shape, v.dtype, v.type, v.desc.lod_level()) for v in var_list or ()]
    with _load_program_scope():
        block = Program().global_block()
        executor = Executor(CPUPlace())
        wanted = [
            block.create_var(
                name=n, shape=s, dtype=d, type=t, lod_level=k if t == VarType.LOD_TENSOR else None, persistable=True
            )
            for n, s, d, t, k in described
        ]
        loaded = []
        if os.path.isfile(model_path):
            folder, filename = os.path.split(model_path)
            _try_load(executor, folder, wanted, filename)
            loaded = wanted
        elif var_list is not None:
            _try_load(executor, model_path, wanted, None)
            loaded = wanted
        else:
            for name in sorted(file_names(model_path)):
                var = block.create_var(name=name, persistable=True)
                try:
                    _try_load(executor, model_path, [var], None)
                    loaded.append(var)
                except RuntimeError as error:
                    warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return {v.name: _value(v.name) for v in loaded}


def _try_load(executor, folder: str, wanted: list, filename: str | None) -> None:
    try:
        load_vars(executor, folder, vars=wanted, filename=filename)
    except Exception as error:
        raise RuntimeError(
            f"load: can not read `{filename or [v.name for v in wanted]}`: is it a file of save_params, "
            "save_persistables or save_vars?"
        ) from error


@static_only
def set_program_state(program, state_dict) -> None:
    """Set the persistable variables of `program` in the global Scope from arrays.

    Args:
        program (Program): its startup program must have been run.
        state_dict (dict): name to array, as :func:`load_program_state` returns.

    Raises:
        AssertionError: when a variable is missing, or an array has another shape or type. Arrays without a variable
            cause a warning.
    """
    state_dict = _pack_loaded_dict(state_dict)
    used = set()
    for var in program.list_vars():
        if not is_persistable(var):
            continue
        old = _value(var.name)
        if var.name not in state_dict:
            continue
        new = np.asarray(state_dict[var.name])
        for what, a, b in (("shape", old.shape, new.shape), ("data type", old.dtype, new.dtype)):
            assert a == b, f"load: {what} of '{var.name}' is {a} in the Program, but {b} in the file"
        _set(var.name, new, create=False)
        used.add(var.name)
    unused = [name for name in state_dict if name not in used]
    if unused:
        warnings.warn(
            f"load: the Program has no parameter for these entries of the file: {' '.join(unused)}",
            stacklevel=2,
        )


_INFERENCE = """
deserialize_persistables deserialize_program load_from_file load_inference_model normalize_program save_inference_model
save_to_file serialize_persistables serialize_program state_of_model _check_vars _normalize_path_prefix
_serialize_persistables _serialize_program
""".split()

# exported here as in 2.0.2
__getattr__ = _getter(
    __name__,
    later={
        **dict.fromkeys(_INFERENCE, "paddle.static.inference_io"),
        "_get_valid_program": "paddle.static.vars_io:valid_program",
        "_clone_var_in_block": "paddle.static.vars_io:clone_var_in_block",
    },
)
