"""Inference models: the pruned Program with its parameters, in Paddle's file formats."""

from __future__ import annotations

import os
import warnings

import numpy as np

import paddle._core as core
from paddle import _ops
from paddle._basics.dtypes import VarType
from paddle._basics.mode import static_only
from paddle._basics.names import OP_DEVICE
from paddle._basics.place import CPUPlace
from paddle._dispatch.append import layer_name
from paddle._persistence.atomic_files import Saving, atomic_file, read_together, saving, where
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle._programs.variable import Variable

from .executor import Executor
from .io import _load_program_scope, _value
from .vars_io import (
    chosen_vars,
    is_persistable,
    load_vars,
    save_vars,
    tables_of_servers,
    valid_program,
    write_vars,
)

__all__ = [
    "save_inference_model",
    "load_inference_model",
    "serialize_program",
    "serialize_persistables",
    "save_to_file",
    "deserialize_program",
    "deserialize_persistables",
    "load_from_file",
    "normalize_program",
]


def _check_vars(name: str, variables) -> list:
    variables = variables if isinstance(variables, list) else [variables]
    if not variables or not all(isinstance(v, Variable) for v in variables):
        raise ValueError(f"{name} must be a Variable, or several in a list")
    return variables


def prepend_feed_ops(inference_program: Program, feed_target_names: list[str], feed_holder_name: str = "feed") -> None:
    """Prepend operators that read the fed variables from the holder.

    Raises:
        ValueError: when the program lacks a variable.
    """
    if not feed_target_names:
        return
    block = inference_program.global_block()
    holder = block.create_var(name=feed_holder_name, type=VarType.FEED_MINIBATCH, persistable=True)
    for i, name in enumerate(feed_target_names):
        if not block.has_var(name):
            raise ValueError(
                f"feeded_var_names[{i}]: '{name}' is not a variable of the pruned program: it is misspelt or not "
                "involved in the target_vars calculation"
            )
        block._prepend_op(type="feed", inputs={"X": [holder]}, outputs={"Out": [block.var(name)]}, attrs={"col": i})


def append_fetch_ops(
    inference_program: Program, fetch_target_names: list[str], fetch_holder_name: str = "fetch"
) -> None:
    """Append operators that write the fetched variables to the holder."""
    block = inference_program.global_block()
    holder = block.create_var(name=fetch_holder_name, type=VarType.FETCH_LIST, persistable=True)
    for i, name in enumerate(fetch_target_names):
        block.append_op(type="fetch", inputs={"X": [name]}, outputs={"Out": [holder]}, attrs={"col": i})


def pruned_for_inference(program: Program, feed_names: list[str], targets: list) -> tuple[Program, list[str]]:
    """The part of the program that computes `targets`, with feed and fetch operators; and the outputs' names.

    As in Paddle, `program` itself gets scale operators, whose outputs are the model's.
    """
    for op in program.global_block().ops:
        if op.has_attr(OP_DEVICE):
            op._set_attr(OP_DEVICE, "")
    if any(op.type == "auc" for op in program.global_block().ops):
        warnings.warn(
            "please ensure that you have set the auc states to zeros before saving inference model", stacklevel=3
        )
    outputs = []
    with program_guard(program):
        for i, var in enumerate(targets):
            if isinstance(var, Variable):
                # a separate output even when a target is an input or occurs twice
                with layer_name(f"save_infer_model/scale_{i}"):
                    # scale has no kernel for bool
                    var = _ops.assign(var) if var.dtype == VarType.BOOL else _ops.scale(var, scale=1.0)
            outputs.append(var)
    names = [v.name for v in outputs]
    copy = program.clone()
    block = copy.global_block()
    for i in range(len(block.ops) - 1, -1, -1):
        if block.ops[i].type in ("feed", "fetch"):
            block._remove_op(i)
    copy.desc.flush()
    copy = copy._prune_with_input(feeded_var_names=feed_names, targets=outputs)
    copy = copy._inference_optimize(prune_read_op=True)
    _look_up_locally(copy)
    copy._copy_dist_param_info_from(program)
    prepend_feed_ops(copy, feed_names)
    append_fetch_ops(copy, names)
    copy.desc._set_version()
    core.save_op_version_info(copy.desc)
    return copy, names


def _look_up_locally(program: Program) -> None:
    """Replaces a trainer's lookups in tables of parameter servers by lookups in a parameter of the model."""
    block = program.global_block()
    for index in reversed(range(len(block.ops))):
        op = block.ops[index]
        if op.type != "distributed_lookup_table":
            continue
        kind, attrs = op.attr("lookup_table_version"), {"padding_idx": op.attr("padding_idx"), "is_sparse": True}
        ids, outs, table = op.input("Ids"), op.output("Outputs"), op.input("W")
        block._remove_op(index)
        for one, out in zip(ids, outs, strict=True):
            block._insert_op(
                index=index, type=kind, inputs={"Ids": [one], "W": table}, outputs={"Out": [out]}, attrs=attrs
            )


def normalize_program(program, feed_vars, fetch_vars) -> Program:
    """The part of `program` that computes `fetch_vars` from `feed_vars`, for inference.

    Args:
        program (Program): the Program; it gets scale operators, whose outputs are the result's.
        feed_vars, fetch_vars (Variable|list of Variable): inputs and outputs.

    Raises:
        TypeError: for other types.
    """
    if not isinstance(program, Program):
        raise TypeError(f"program must be a Program, got {type(program)}")
    lists = []
    for name, value in (("feed_vars", feed_vars), ("fetch_vars", fetch_vars)):
        value = value if isinstance(value, list) else [value]
        if not all(isinstance(v, Variable) for v in value):
            raise TypeError(f"{name} must be a Variable, or several in a list")
        lists.append(value)
    return pruned_for_inference(program, [v.name for v in lists[0]], lists[1])[0]


def _normalized(feed_vars, fetch_vars, kwargs) -> Program:
    feeds, fetches = _check_vars("feed_vars", feed_vars), _check_vars("fetch_vars", fetch_vars)
    return normalize_program(valid_program(kwargs.get("program")), feeds, fetches)


@static_only
def serialize_program(feed_vars, fetch_vars, **kwargs) -> bytes:
    """The program that computes `fetch_vars` from `feed_vars`, as bytes.

    Args:
        feed_vars, fetch_vars (Variable|list of Variable): inputs and outputs.
        program (Program, optional): the default main program when absent.
    """
    return _serialize_program(_normalized(feed_vars, fetch_vars, kwargs))


@static_only
def serialize_persistables(feed_vars, fetch_vars, executor, **kwargs) -> bytes | None:
    """The parameters of the program that computes `fetch_vars` from `feed_vars`, as bytes; None without parameters.

    Args:
        feed_vars, fetch_vars (Variable|list of Variable): inputs and outputs.
        executor (Executor): runs the saving operators.
        program (Program, optional): the default main program when absent.
    """
    return _serialize_persistables(_normalized(feed_vars, fetch_vars, kwargs), executor)


def _serialize_program(program: Program) -> bytes:
    """The bytes of a Program."""
    return program.desc.serialize_to_string()


def _serialize_persistables(program: Program, executor) -> bytes | None:
    """The persistable variables of a Program as bytes; None when it has none."""
    with tables_of_servers(executor, program):
        return save_vars(executor, None, program, None, is_persistable)


def save_to_file(path: str, content: bytes) -> None:
    """Write bytes to a file; ValueError for another type."""
    if not isinstance(content, bytes):
        raise ValueError("content must be bytes")
    with atomic_file(path) as file:
        file.write(content)


def load_from_file(path: str) -> bytes:
    """The bytes of a file."""
    with open(where(path), "rb") as file:
        return file.read()


def write_persistables(executor, program: Program, files: Saving, filename: str | None) -> None:
    """Save the persistable variables of `program` as part of a save: one file each, or all in `filename`."""
    chosen = chosen_vars(program, None, is_persistable)
    if chosen:
        with tables_of_servers(executor, program):
            write_vars(executor, chosen, files, filename)
    elif filename is not None:
        warnings.warn("save: the Program has no variable to write", stacklevel=3)
        files.write(filename, b"")


def _normalize_path_prefix(path_prefix) -> str:
    if not isinstance(path_prefix, str):
        raise ValueError("path_prefix must be a str")
    if path_prefix.endswith("/"):
        raise ValueError("path_prefix is a directory")
    return os.path.abspath(os.path.normpath(path_prefix))


@static_only
def save_inference_model(path_prefix, feed_vars, fetch_vars, executor, **kwargs) -> None:
    """Save <path_prefix>.pdmodel and <path_prefix>.pdiparams: a model that computes `fetch_vars` from `feed_vars`.

    Args:
        path_prefix (str): folder and name, no suffix.
        feed_vars, fetch_vars (Variable|list of Variable): inputs and outputs.
        executor (Executor): runs the saving operators.
        program (Program, optional): the default main program when absent.

    Raises:
        ValueError: for a path that is a folder, or arguments that are no Variables.
    """
    prefix = _normalize_path_prefix(path_prefix)
    for suffix in (".pdmodel", ".pdiparams"):
        if os.path.isdir(prefix + suffix):
            raise ValueError(f"{prefix + suffix} is a directory")
    program = _normalized(feed_vars, fetch_vars, kwargs)
    folder, name = os.path.split(prefix)
    with saving(folder) as files:
        write_persistables(executor, program, files, name + ".pdiparams")
        files.write(name + ".pdmodel", program.desc.serialize_to_string())


@static_only
def deserialize_program(data: bytes) -> Program:
    """The Program in bytes of :func:`serialize_program`; ValueError for invalid bytes."""
    return Program.parse_from_string(data)


@static_only
def deserialize_persistables(program, data: bytes, executor) -> None:
    """Load parameters from bytes of :func:`serialize_persistables` into the global Scope.

    Raises:
        TypeError: when `program` is no Program. RuntimeError: when a shape differs.
    """
    if not isinstance(program, Program):
        raise TypeError(f"program must be a Program, got {type(program)}")
    load_vars(executor, None, program, None, is_persistable, data)


def interface_of(program: Program) -> list:
    """[program, names to feed, Variables to fetch] of an inference program."""
    block = program.global_block()
    fetches = [block.var(name) for name in program.desc.get_fetch_target_names()]
    return [program, list(program.desc.get_feed_target_names()), fetches]


def _load(program_bytes: bytes, params: bytes | None, executor) -> list:
    program = deserialize_program(program_bytes)
    if params:
        deserialize_persistables(program, params, executor)
    return interface_of(program)


@static_only
def load_inference_model(path_prefix, executor, **kwargs) -> list:
    """Load a model that :func:`save_inference_model` of this package or Paddle saved.

    Args:
        path_prefix (str|None): folder and name without suffix; the folder alone with `model_filename`; None when
            the file names are the bytes themselves.
        executor (Executor): runs the loading operators.
        model_filename, params_filename (str, optional): names of files in a folder of the format of 1.x.

    Returns:
        list: the Program, the names to feed, the Variables to fetch.

    Raises:
        ValueError: for other keywords, or a prefix that is a folder.
        FileNotFoundError: when a file is missing.
        RuntimeError: when number, shapes or types of the parameters do not match the model.
    """
    for name in kwargs:
        if name not in ("model_filename", "params_filename"):
            gone = "is deprecated" if name == "pserver_endpoints" else "is not known"
            raise ValueError(
                f"argument '{name}' {gone} in load_inference_model, only model_filename and params_filename are"
            )
    model, params = kwargs.get("model_filename"), kwargs.get("params_filename")
    if path_prefix is None:
        if params is None:
            raise ValueError("save_inference_model: params_filename must be given where path_prefix is None")
        if model is None:
            raise ValueError("load_inference_model: model_filename must be given where path_prefix is None")
        return _load(model, params, executor)
    prefix = _normalize_path_prefix(path_prefix)
    if not kwargs:
        paths = [prefix + ".pdmodel", prefix + ".pdiparams"]

        def read_pair():
            content = load_from_file(paths[0])
            # a model without parameters has no such file
            needed = any(is_persistable(v) for v in deserialize_program(content).list_vars())
            return content, load_from_file(paths[1]) if needed or os.path.exists(where(paths[1])) else b""

        content, values = read_together(paths, read_pair)
        return _load(content, values, executor)
    warnings.warn("loading an inference model from named files is the older way", stacklevel=3)
    model_path = _either(prefix, model or "__model__", ".pdmodel")
    if params is None:
        return load_folder(prefix, model_path, executor)
    paths = [model_path, _either(prefix, params, ".pdiparams")]
    content, values = read_together(paths, lambda: [load_from_file(path) for path in paths])
    return _load(content, values, executor)


def load_folder(folder: str, model_path: str, executor, params_filename: str | None = None) -> list:
    """Load the program at `model_path`, and its parameters from `folder`, in one file or one file each."""

    def read():
        program = deserialize_program(load_from_file(model_path))
        load_vars(executor, folder, program, None, is_persistable, params_filename)
        return program

    return interface_of(read_together([model_path], read))


def state_of_model(folder: str, model_filename: str, params_filename: str | None) -> dict[str, np.ndarray]:
    """The parameters of a saved inference model as arrays by name."""
    with _load_program_scope():
        program = load_folder(folder, os.path.join(folder, model_filename), Executor(CPUPlace()), params_filename)[0]
        return {v.name: _value(v.name) for v in program.list_vars() if is_persistable(v)}


def _either(folder: str, name: str, suffix: str) -> str:
    path = os.path.join(folder, name)
    return path + suffix if os.path.exists(where(path + suffix)) else path
