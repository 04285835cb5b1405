"""Variables to files and back, one each or all in one, as Paddle's operators save and load write them."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Iterable

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import dygraph_not_support
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.scope import global_scope
from paddle._programs.variable import Parameter, Variable, isinstance_of

from .compiler import CompiledProgram

__all__ = ["save_vars", "load_vars", "save_params", "load_params", "save_persistables", "load_persistables"]

_NO_VALUE = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.READER)


def is_parameter(var) -> bool:
    """Whether `var` is a Parameter."""
    return isinstance_of(var, Parameter)


def is_persistable(var) -> bool:
    """Whether `var` is kept between runs and can be saved."""
    return var.desc.type() not in _NO_VALUE and bool(var.persistable)


def is_belong_to_optimizer(var) -> bool:
    """Whether `var` is state of an optimizer: persistable, no parameter, not fed."""
    return not is_parameter(var) and not var.desc.need_check_feed() and is_persistable(var)


@dygraph_not_support
def get_program_parameter(program) -> list:
    """The parameters of `program`."""
    return [v for v in program.list_vars() if is_parameter(v)]


@dygraph_not_support
def get_program_persistable_vars(program) -> list:
    """The persistable variables of `program`."""
    return [v for v in program.list_vars() if is_persistable(v)]


def valid_program(program=None) -> Program:
    """The Program meant: the default one for None, a CompiledProgram's own; TypeError for anything else."""
    if program is None:
        program = guards.default_main_program()
    elif isinstance(program, CompiledProgram):
        warnings.warn("a CompiledProgram is given where a Program is meant", stacklevel=3)
        program = program._program
    if not isinstance(program, Program):
        raise TypeError(f"main_program must be a Program, got {type(program)}")
    return program


def clone_var_in_block(block, var) -> Variable:
    """A persistable variable of the same name, type and shape in `block`."""
    kwargs = {"lod_level": var.lod_level} if var.desc.type() == VarType.LOD_TENSOR else {}
    return block.create_var(name=var.name, shape=var.shape, dtype=var.dtype, type=var.type, persistable=True, **kwargs)


def _chosen(program: Program, vars: Iterable | None, predicate) -> list:  # noqa: A002
    chosen = list(program.list_vars() if vars is None else vars)
    if vars is None and predicate is not None:
        chosen = [v for v in chosen if predicate(v)]
    for var in chosen:
        if not isinstance_of(var, Variable):
            raise TypeError(f"vars must be Variables, but one is {type(var)}")
    # one name may stand in several blocks
    return list({v.name: v for v in chosen if v.type != VarType.RAW}.values())


@dygraph_not_support
def save_vars(executor, dirname, main_program=None, vars=None, predicate=None, filename=None):  # noqa: A002
    """Save variables of a program, in the folder `dirname` or in the one file `filename` there.

    Args:
        executor (Executor): runs the saving operators.
        dirname (str, optional): the folder; with neither it nor a file name the bytes are returned.
        main_program (Program, optional): the default one when None.
        vars (list of Variable, optional): which; those that `predicate` holds for when None.
        predicate (callable, optional): takes a Variable.
        filename (str, optional): one file for all, in the order of their names.

    Returns:
        bytes when neither `dirname` nor `filename` is given, else None.

    Raises:
        TypeError: when there is no Program.
    """
    program = valid_program(main_program)
    chosen = _chosen(program, vars, predicate)
    if not chosen:
        warnings.warn(
            "save: the Program has no variable to write", stacklevel=3
        )
        return None
    if dirname is None and filename is None:
        with _temporary() as path:
            _run_save(executor, chosen, path)
            with open(path, "rb") as file:
                return file.read()
    folder = os.path.normpath(dirname or ".")
    if filename is not None:
        _run_save(executor, chosen, os.path.join(folder, filename))
        return None
    saving = Program()
    block = saving.global_block()
    for var in chosen:
        attrs = {"file_path": os.path.join(folder, var.name)}
        block.append_op(type="save", inputs={"X": [clone_var_in_block(block, var)]}, outputs={}, attrs=attrs)
    executor.run(saving)
    return None


def _run_save(executor, chosen: list, path: str) -> None:
    saving = Program()
    block = saving.global_block()
    copies = [clone_var_in_block(block, v) for v in sorted(chosen, key=lambda v: v.name)]
    holder = block.create_var(type=VarType.RAW, name=unique_name.generate("saved_params"))
    holder.desc.set_persistable(True)
    block.append_op(type="save_combine", inputs={"X": copies}, outputs={"Y": holder}, attrs={"file_path": path})
    executor.run(saving)


@contextlib.contextmanager
def _temporary():
    """The path of a file that exists for the ``with`` block."""
    handle, path = tempfile.mkstemp(prefix="oar-")
    try:
        os.close(handle)
        yield path
    finally:
        os.unlink(path)


def load_vars(executor, dirname, main_program=None, vars=None, predicate=None, filename=None) -> None:  # noqa: A002
    """Load variables that :func:`save_vars` (or real Paddle) saved, into the global Scope.

    Args:
        executor (Executor): runs the loading operators.
        dirname (str, optional): the folder; None when `filename` is the bytes themselves.
        main_program (Program, optional): the default one when None.
        vars (list of Variable, optional): which; those that `predicate` holds for when None.
        predicate (callable, optional): takes a Variable.
        filename (str|bytes, optional): the one file in which they are, in the order of their names.

    Raises:
        RuntimeError: when a file's shape is not the parameter's.
        ValueError: when there is neither folder nor file.
    """
    program = valid_program(main_program)
    chosen = _chosen(program, vars, predicate)
    if not chosen:
        return
    if filename is None:
        if dirname is None:
            raise ValueError("load: one of dirname and filename must be given")
        loading = Program()
        block = loading.global_block()
        for var in chosen:
            attrs = {"file_path": os.path.join(os.path.normpath(dirname), var.name)}
            block.append_op(type="load", inputs={}, outputs={"Out": [clone_var_in_block(block, var)]}, attrs=attrs)
        executor.run(loading)
    elif isinstance(filename, bytes):
        _run_load(executor, chosen, filename, True)
    else:
        _run_load(executor, chosen, os.path.join(os.path.normpath(dirname), filename) if dirname else filename)
    _check_shapes(chosen)


def _run_load(executor, chosen: list, path: str | bytes, in_memory: bool = False) -> None:
    for var in chosen:
        if var.type == VarType.SELECTED_ROWS:
            raise ValueError("load_combine reads no SelectedRows")
    loading = Program()
    block = loading.global_block()
    copies = [clone_var_in_block(block, v) for v in sorted(chosen, key=lambda v: v.name)]
    attrs = {"file_path": path, "model_from_memory": in_memory}
    block.append_op(type="load_combine", inputs={}, outputs={"Out": copies}, attrs=attrs)
    executor.run(loading)


def _check_shapes(chosen: list) -> None:
    for var in chosen:
        if not is_parameter(var):
            continue
        found = global_scope().find_var(var.name)
        assert found is not None, f"can't find var: {var.name}"
        shape = tuple(found.get_tensor().shape())
        if shape != tuple(var.shape):
            raise RuntimeError(
                f"load: variable '{var.name}' has shape {var.shape} in the Program, but {shape} in the file"
            )


@dygraph_not_support
def save_params(executor, dirname, main_program=None, filename=None):
    """Save the parameters of a program; see :func:`save_vars`."""
    return save_vars(executor, dirname, main_program, None, is_parameter, filename)


@dygraph_not_support
def load_params(executor, dirname, main_program=None, filename=None) -> None:
    """Load the parameters of a program; see :func:`load_vars`."""
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def _not_distributed(program) -> None:
    if program is not None and program._is_distributed:
        raise NotImplementedError("saving and loading with parameter servers is not there yet")


@dygraph_not_support
def save_persistables(executor, dirname, main_program=None, filename=None):
    """Save the persistable variables of a program: parameters, running statistics, optimizer state."""
    _not_distributed(main_program if isinstance(main_program, Program) else None)
    return save_vars(executor, dirname, main_program, None, is_persistable, filename)


@dygraph_not_support
def load_persistables(executor, dirname, main_program=None, filename=None) -> None:
    """Load the persistable variables of a program; see :func:`load_vars`."""
    _not_distributed(main_program if isinstance(main_program, Program) else None)
    load_vars(executor, dirname, main_program, None, is_persistable, filename)
