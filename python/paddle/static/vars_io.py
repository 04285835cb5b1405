"""Saving and loading of variables, one file each or all in one, in the format of Paddle's operators save and load."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType, convert_dtype
from paddle._basics.mode import dygraph_not_support
from paddle._basics.place import CPUPlace
from paddle._persistence.atomic_files import Saving, inside, read_together, saving, where
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.scope import global_scope, scope_guard
from paddle._programs.variable import Parameter, Variable, isinstance_of

from .compiler import CompiledProgram

__all__ = ["save_vars", "load_vars", "save_params", "load_params", "save_persistables", "load_persistables"]

_NO_VALUE = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.READER)


def is_parameter(var) -> bool:
    """Whether `var` is a Parameter."""
    return isinstance_of(var, Parameter)


def is_persistable(var) -> bool:
    """Whether `var` is persistable and can be saved."""
    return var.desc.type() not in _NO_VALUE and bool(var.persistable)


def is_belong_to_optimizer(var) -> bool:
    """Whether `var` is state of an optimizer: persistable, neither a parameter nor fed."""
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
    """The Program of an argument: the default one for None, that of a CompiledProgram; TypeError for other types."""
    if program is None:
        program = guards.default_main_program()
    elif isinstance(program, CompiledProgram):
        if program._graph is not None and not program._compiled:
            raise TypeError("main_program is a CompiledProgram of a Graph, which has no Program before its first run")
        warnings.warn("main_program should be a Program, not a CompiledProgram", stacklevel=3)
        program = program._program
    if not isinstance(program, Program):
        raise TypeError(f"main_program must be a Program, got {type(program)}")
    return program


def clone_var_in_block(block, var) -> Variable:
    """A persistable variable of the same name, type and shape in `block`."""
    kwargs = {"lod_level": var.lod_level} if var.type == VarType.LOD_TENSOR else {}
    return block.create_var(name=var.name, shape=var.shape, dtype=var.dtype, type=var.type, persistable=True, **kwargs)


def chosen_vars(program: Program, vars: Iterable | None, predicate) -> list:  # noqa: A002
    """The selected variables: `vars`, or those of `program` for which `predicate` is true."""
    chosen = list(program.list_vars() if vars is None else vars)
    if vars is None and predicate is not None:
        chosen = [v for v in chosen if predicate(v)]
    for var in chosen:
        if not isinstance_of(var, Variable):
            raise TypeError(f"vars must be Variables, but one is {type(var)}")
    # several blocks may declare one name
    return list({v.name: v for v in chosen if v.type != VarType.RAW}.values())


@dygraph_not_support
def save_vars(executor, dirname, main_program=None, vars=None, predicate=None, filename=None):  # noqa: A002
    """Save variables of a program, in the folder `dirname` or in the one file `filename` there.

    Args:
        executor (Executor): runs the saving operators.
        dirname (str, optional): the folder; without it and `filename` the bytes are returned.
        main_program (Program, optional): the default one when None.
        vars (list of Variable, optional): which; those that `predicate` holds for when None.
        predicate (callable, optional): takes a Variable.
        filename (str, optional): one file for all, in the order of their names.

    Returns:
        bytes when neither `dirname` nor `filename` is given, else None.

    Raises:
        TypeError: when there is no Program. ValueError: when a name leaves the folder.
    """
    program = valid_program(main_program)
    chosen = chosen_vars(program, vars, predicate)
    if not chosen:
        warnings.warn("save: the Program has no variable to write", stacklevel=3)
        return None
    if dirname is None and filename is None:
        with _temporary() as path:
            _run_save(executor, chosen, path)
            with open(path, "rb") as file:
                return file.read()
    folder = os.path.normpath(dirname or ".")
    if filename is not None:
        folder, filename = os.path.split(os.path.join(folder, filename))
    with saving(folder) as files:
        write_vars(executor, chosen, files, filename)
    return None


def write_vars(executor, chosen: list, files: Saving, filename: str | None) -> None:
    """Save the variables `chosen` as part of a save: one file each, or all in `filename`."""
    if filename is not None:
        _run_save(executor, chosen, files.path(filename))
        return
    program = Program()
    block = program.global_block()
    for var in chosen:
        attrs = {"file_path": files.path(var.name)}
        block.append_op(type="save", inputs={"X": [clone_var_in_block(block, var)]}, outputs={}, attrs=attrs)
    executor.run(program)


def _run_save(executor, chosen: list, path: str) -> None:
    program = Program()
    block = program.global_block()
    copies = [clone_var_in_block(block, v) for v in sorted(chosen, key=lambda v: v.name)]
    holder = block.create_var(type=VarType.RAW, name=unique_name.generate("saved_params"))
    holder.desc.set_persistable(True)
    block.append_op(type="save_combine", inputs={"X": copies}, outputs={"Y": holder}, attrs={"file_path": path})
    executor.run(program)


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
    """Load variables from files of :func:`save_vars` (or Paddle) into the global Scope.

    Args:
        executor (Executor): runs the loading operators.
        dirname (str, optional): the folder; None when `filename` is the bytes themselves.
        main_program (Program, optional): the default one when None.
        vars (list of Variable, optional): which; those that `predicate` holds for when None.
        predicate (callable, optional): takes a Variable.
        filename (str|bytes, optional): one file with all variables, in the order of their names.

    Raises:
        RuntimeError: when number, shapes or types of the saved variables differ.
        ValueError: without `dirname` and `filename`, or when a name leaves the folder.
    """
    program = valid_program(main_program)
    chosen = chosen_vars(program, vars, predicate)
    if not chosen:
        return
    if isinstance(filename, bytes):
        _run_load(executor, chosen, filename, True)
    elif filename is not None:
        path = os.path.join(os.path.normpath(dirname), filename) if dirname else filename
        read_together([path], lambda: _run_load(executor, chosen, where(path)))
    elif dirname is not None:
        folder = os.path.normpath(dirname)
        paths = [inside(folder, var.name) for var in chosen]
        read_together(paths, lambda: _run_loads(executor, chosen, [where(p, folder) for p in paths]), folder)
    else:
        raise ValueError("load: one of dirname and filename must be given")


def _run_loads(executor, chosen: list, paths: list[str]) -> None:
    program = Program()
    block = program.global_block()
    for var, path in zip(chosen, paths, strict=True):
        if var.type != VarType.SELECTED_ROWS:
            _check_entries(path, [var], path)
        block.append_op(
            type="load", inputs={}, outputs={"Out": [clone_var_in_block(block, var)]}, attrs={"file_path": path}
        )
    executor.run(program)


def _run_load(executor, chosen: list, path: str | bytes, in_memory: bool = False) -> None:
    for var in chosen:
        if var.type == VarType.SELECTED_ROWS:
            raise ValueError("load_combine reads no SelectedRows")
    chosen = sorted(chosen, key=lambda v: v.name)
    _check_entries(path, chosen, path if isinstance(path, str) else "the model in memory")
    program = Program()
    block = program.global_block()
    copies = [clone_var_in_block(block, v) for v in chosen]
    attrs = {"file_path": path, "model_from_memory": in_memory}
    block.append_op(type="load_combine", inputs={}, outputs={"Out": copies}, attrs=attrs)
    executor.run(program)


def _check_entries(source: str | bytes, chosen: list, what: str) -> None:
    """RuntimeError unless a file (or its bytes) has the tensors of the variables `chosen`; called before any is set."""
    entries = core.tensor_file_entries(source)
    if len(entries) != len(chosen):
        raise RuntimeError(
            f"load: {what} holds {len(entries)} tensors, the Program has {len(chosen)} variables to load from it: "
            "they are not of the same model"
        )
    for var, (dtype, shape) in zip(chosen, entries, strict=True):
        check_fit(var, shape, dtype, what)


def check_fit(var, shape: Iterable[int], dtype: Any, what: str) -> None:
    """RuntimeError unless a tensor of `shape` and `dtype` (None for any) can be the value of `var`."""
    shape, expected = tuple(shape), tuple(var.shape)
    # a variable created by its name alone declares neither shape nor type
    if not expected:
        return
    if len(shape) != len(expected) or any(e not in (-1, n) for e, n in zip(expected, shape, strict=True)):
        raise RuntimeError(f"load: variable '{var.name}' has shape {expected} in the Program, but {shape} in {what}")
    if dtype is not None and dtype != var.dtype:
        raise RuntimeError(
            f"load: variable '{var.name}' is {convert_dtype(var.dtype)} in the Program, but {convert_dtype(dtype)} in "
            f"{what}"
        )


@dygraph_not_support
def save_params(executor, dirname, main_program=None, filename=None):
    """Save the parameters of a program; see :func:`save_vars`."""
    return save_vars(executor, dirname, main_program, None, is_parameter, filename)


@dygraph_not_support
def load_params(executor, dirname, main_program=None, filename=None) -> None:
    """Load the parameters of a program; see :func:`load_vars`."""
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def _of_servers(program) -> bool:
    return isinstance(program, Program) and program._is_distributed


@dygraph_not_support
def save_persistables(executor, dirname, main_program=None, filename=None):
    """Save the persistable variables of a program: parameters, running statistics, optimizer state.

    For a trainer's Program of DistributeTranspiler the files equal those of a single process: the first trainer also
    receives the variables that only servers hold (`filename` is ignored).
    """
    if _of_servers(main_program):
        return _save_distributed_persistables(executor, dirname, main_program)
    return save_vars(executor, dirname, main_program, None, is_persistable, filename)


@dygraph_not_support
def load_persistables(executor, dirname, main_program=None, filename=None) -> None:
    """Load the persistable variables of a program; see :func:`load_vars`.

    For a server's Program of DistributeTranspiler, loads the blocks of the server at `current_endpoint` from the whole
    variables in the folder (incremental training), after the startup Program has run.
    """
    if _of_servers(main_program):
        return _load_distributed_persistables(executor, dirname, main_program)
    load_vars(executor, dirname, main_program, None, is_persistable, filename)


# ------------------------------------------------------------------ Programs of trainers and parameter servers


def _check_distributed(program, what: str) -> None:
    if not isinstance(program, Program):
        raise TypeError(f"{what}: main_program must be a Program, got {type(program)}")
    if not program._is_distributed:
        raise ValueError(f"{what}: main_program must be a trainer's or server's Program of DistributeTranspiler")


def _save_distributed_persistables(executor, dirname, main_program=None) -> None:
    """Save a trainer's variables; the first trainer also saves whole variables that only servers hold.

    Each server writes its part of a distributed table to ``__lookup_table__`` in the folder.
    """
    _check_distributed(main_program, "save_persistables")
    remote = main_program._parameters_on_pservers.get_distributed_vars_by_vtypes(
        ["Optimizer", "RemotePrefetch"], groupby=True
    )
    table, endpoints = main_program._distributed_lookup_table, main_program._endpoints
    tables = table if isinstance(table, list) else [table] if table else []
    mine = [v for v in main_program.list_vars() if is_persistable(v) and v.name not in {*remote, *tables}]
    with saving(os.path.normpath(dirname or ".")) as files:
        write_vars(executor, chosen_vars(main_program, mine, None), files, None)
        program = Program()
        for name, parts in remote.items() if main_program._is_chief else ():
            _append_recv_save(program.global_block(), parts, files.path(name))
        if program.global_block().ops:
            executor.run(program)
    program = Program()
    for name in tables if main_program._is_chief else ():
        attrs = {
            "endpoints": endpoints,
            "dirname": dirname,
            "varname": "__lookup_table__",
            "slice_varnames": [f"{name}_{i}" for i in range(len(endpoints))],
            "remote_varnames": [name] * len(endpoints),
        }
        program.global_block().append_op(type="checkpoint_notify", inputs={}, outputs={}, attrs=attrs)
    if program.global_block().ops:
        executor.run(program)


@contextlib.contextmanager
def tables_of_servers(executor, program: Program):
    """The ``with`` block runs in a Scope that has, as well, the variables of `program` that only servers hold.

    Without such variables it is the global Scope itself; else a new one, with copies of the values.
    """
    remote: dict[str, Any] = {}
    if program._is_distributed and program._parameters_on_pservers is not None:
        remote = program._parameters_on_pservers.get_distributed_vars_by_vtypes(
            ["Optimizer", "RemotePrefetch"], groupby=True
        )
    chosen = chosen_vars(program, None, is_persistable)
    held = [v for v in chosen if v.name in remote]
    if not held:
        yield
        return
    receiving, source, scope = Program(), global_scope(), core._Scope()
    for var in held:
        _append_recv(receiving.global_block(), remote[var.name])
    executor.run(receiving, scope=scope)
    for var in chosen:
        found = None if var.name in remote else source.find_var(var.name)
        if found is not None and found.get_tensor()._is_initialized():
            scope.var(var.name).get_tensor().set(np.array(found.get_tensor()), CPUPlace())
    with scope_guard(scope):
        yield


def _append_recv(block, parts: list) -> None:
    """Append operators that receive the blocks of a variable from the servers, and join them."""
    whole = parts[0].origin
    parts = sorted(parts, key=lambda v: v.block_id) if parts[0].is_slice else parts[:1]
    out = block.create_var(name=whole.name, shape=whole.shape, dtype=whole.dtype, persistable=True)
    outs = [out]
    if len(parts) > 1:
        outs = [
            block.create_var(name=f"{v.slice.name}.{i}", shape=v.slice.shape, dtype=whole.dtype)
            for i, v in enumerate(parts)
        ]
    attrs = {"epmap": [v.endpoint for v in parts], "varnames": [v.slice.name for v in parts], "trainer_id": 0}
    block.append_op(type="recv", inputs={"X": []}, outputs={"Out": outs}, attrs=attrs)
    if len(parts) > 1:
        block.append_op(type="concat", inputs={"X": outs}, outputs={"Out": [out]}, attrs={"axis": 0})


def _append_recv_save(block, parts: list, path: str) -> None:
    """Append an operator that receives the blocks of a variable from the servers, and saves the whole variable."""
    whole = parts[0].origin
    # variables of which each server has a copy, such as Adam's beta powers, are equal on all
    parts = sorted(parts, key=lambda v: v.block_id) if parts[0].is_slice else parts[:1]
    attrs = {
        "trainer_id": 0,
        "dtype": int(whole.dtype),
        "shape": list(whole.shape),
        "slice_shapes": [",".join(map(str, v.slice.shape)) for v in parts],
        "slice_varnames": [f"{v.slice.name}.slice.{i}" for i, v in enumerate(parts)],
        "remote_varnames": [v.slice.name for v in parts],
        "endpoints": [v.endpoint for v in parts],
        "file_path": path,
        "is_sparse": False,
    }
    block.append_op(type="recv_save", inputs={}, outputs={}, attrs=attrs)


def _load_distributed_persistables(executor, dirname, main_program=None) -> None:
    """Load a server's blocks from the whole variables in a folder."""
    _check_distributed(main_program, "load_persistables")
    endpoint = main_program._ps_endpoint
    if not endpoint:
        raise ValueError("load_persistables: DistributeTranspiler.transpile needs the argument current_endpoint")
    parts = main_program._parameters_on_pservers.get_distributed_vars_by_ep(endpoint)
    if not parts:
        warnings.warn(
            f"load_persistables: nothing is loaded, as nothing lies at {endpoint}: current_endpoint of "
            "DistributeTranspiler.transpile names the server",
            stacklevel=4,
        )
        return
    folder = os.path.normpath(dirname)
    paths = [inside(folder, v.origin.name) for v in parts]
    read_together(paths, lambda: _run_load_parts(executor, parts, [where(p, folder) for p in paths]), folder)


def _run_load_parts(executor, parts: list, paths: list[str]) -> None:
    program = Program()
    block = program.global_block()
    for part, path in zip(parts, paths, strict=True):
        _check_entries(path, [part.origin], path)
        attrs = {"seek": part.offset, "shape": list(part.slice.shape)} if part.is_slice else {}
        out = clone_var_in_block(block, part.slice)
        block.append_op(type="load", inputs={}, outputs={"Out": [out]}, attrs={"file_path": path, **attrs})
    executor.run(program)
