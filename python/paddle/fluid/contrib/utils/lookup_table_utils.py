"""Models with a distributed lookup table, loaded into one process for inference or further training."""

from __future__ import annotations

import math
import os
from typing import Any

from paddle._basics.dtypes import VarType
from paddle._programs.program import Program
from paddle.static.vars_io import load_vars

__all__ = ["load_persistables_for_increment", "load_persistables_for_inference", "convert_dist_to_sparse_program"]

model_filename = "__model__"
lookup_table_dir = "__lookup_table__"
_NO_FILES = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.RAW)
_TRAINING = ("@GRAD", ".trainer_", ".block", "tmp_")


def convert_dist_to_sparse_program(program):
    """Replaces the distributed lookup of a trainer's Program by a local one: the table is SelectedRows of that name.

    2.0.2 inserts an operator of its own; here it is the embedding lookup, which reads SelectedRows.

    Args:
        program (Program): a trainer's, of the DistributeTranspiler.

    Returns:
        Program: the same object; None without changes if it has no distributed table.

    Raises:
        ValueError: if the Program does not fetch rows of the table from servers.
    """
    name = program._distributed_lookup_table
    if not name:
        return None
    block = program.global_block()
    kinds = [op.type for op in block.ops]
    at = next((i for i in range(len(kinds)) if kinds[i : i + 3] == ["split_ids", "prefetch", "merge_ids"]), None)
    if at is None:
        raise ValueError(f"convert_dist_to_sparse_program: the Program does not fetch rows of {name} from servers")
    asked, given = block.ops[at].input("Ids"), block.ops[at + 2].output("Out")
    old = block._rename_var(name, f"{name}.origin")
    table = block.create_var(name=name, shape=old.shape, dtype=old.dtype, type=VarType.SELECTED_ROWS, persistable=True)
    for index in (at + 2, at + 1, at):
        block._remove_op(index)
    for ids, out in zip(map(block.var, asked), map(block.var, given), strict=True):
        block._insert_op(
            at,
            type="lookup_table" if len(ids.shape) == len(out.shape) else "lookup_table_v2",
            inputs={"Ids": [ids], "W": [table]},
            outputs={"Out": [out]},
            attrs={"is_distributed": False, "is_sparse": True},
        )
    return program


def load_persistables_for_increment(dirname, executor, program, lookup_table_var, lookup_table_var_path) -> None:
    """Loads the variables of a parameter server to continue training; of sliced variables the server's own slice.

    Args:
        dirname (str): a folder with complete variables.
        executor (Executor): runs the load operators.
        program (Program): a server's, of the DistributeTranspiler.
        lookup_table_var (str), lookup_table_var_path (str): the distributed table, and its file.

    Raises:
        ValueError: if a file is missing, or `program` is not a Program.
    """
    _check_folder(dirname)
    if not os.path.exists(lookup_table_var_path):
        raise ValueError(f"There is no file named '{lookup_table_var_path}'")
    _check_program(program)
    loads = Program()
    block, whole = loads.global_block(), []
    for found in program._parameters_on_pservers.get_distributed_vars_by_ep(program._ps_endpoint):
        origin, part = found.origin, found.slice
        name = f"{origin.name}.load" if found.is_slice else origin.name
        read = _load(block, name, origin, os.path.join(dirname, origin.name))
        if found.is_slice:
            start = int(found.offset / math.prod(part.shape[1:]))
            block.append_op(
                type="slice",
                inputs={"Input": read},
                outputs={"Out": _like(block, part.name, part)},
                attrs={"axes": [0], "starts": [start], "ends": [start + part.shape[0]]},
            )
            whole.append(read)
    if whole:
        block.append_op(type="delete_var", inputs={"X": whole})
    _load(block, lookup_table_var, program.global_block().var(lookup_table_var), lookup_table_var_path)
    executor.run(loads)


def load_persistables_for_inference(dirname, executor, program, lookup_table_var_name):
    """Loads a model whose table the servers saved in parts to ``__lookup_table__``, and joins these parts.

    Args:
        dirname (str): the model's folder.
        executor (Executor): runs the load operators.
        program (Program): the model; None: loaded from the file ``__model__``.
        lookup_table_var_name (str): the table; its parts are files of this name with the suffix ``_`` and a number.

    Returns:
        Program: the model.

    Raises:
        ValueError: if a folder is missing, or `program` is not a Program.
    """
    _check_folder(dirname)
    if program:
        _check_program(program)
    else:
        with open(os.path.join(dirname, model_filename), "rb") as f:
            program = Program.parse_from_string(f.read())

    def in_files(var: Any) -> bool:
        other = var.name == lookup_table_var_name or any(part in var.name for part in _TRAINING)
        return var.persistable and var.desc.type() not in _NO_FILES and not other

    load_vars(executor, dirname=dirname, main_program=program, predicate=in_files, filename=None)
    folder = os.path.join(dirname, lookup_table_dir)
    _check_folder(folder)
    table = program.global_block().var(lookup_table_var_name)
    # files that this function wrote have no number
    count = sum(lookup_table_var_name in name and name != lookup_table_var_name for name in os.listdir(folder))
    loads = Program()
    block = loads.global_block()
    rows = {"shape": table.shape, "dtype": table.dtype, "type": VarType.SELECTED_ROWS}
    merged = block.create_var(name=table.name, persistable=True, **rows)
    parts = []
    for number in range(count):
        part = block.create_var(name=f"{table.name}_{number}", persistable=True, **rows)
        path = os.path.join(folder, part.name)
        block.append_op(type="load", inputs={}, outputs={"Out": [part]}, attrs={"file_path": path})
        parts.append(part)
    block.append_op(type="lookup_sparse_table_merge", inputs={"X": parts}, outputs={"Out": merged})
    path = os.path.join(folder, table.name)
    block.append_op(type="save", inputs={"X": [merged]}, outputs={}, attrs={"file_path": path})
    block.append_op(type="delete_var", inputs={"X": parts})
    executor.run(loads)
    return program


def _check_folder(dirname: str) -> None:
    if not os.path.isdir(dirname):
        raise ValueError(f"There is no directory named '{dirname}'")


def _check_program(program: Any) -> None:
    if not isinstance(program, Program):
        raise ValueError(f"program must be an instance of fluid.Program, got {type(program)}")


def _like(block: Any, name: str, var: Any) -> Any:
    return block.create_var(name=name, type=var.type, shape=var.shape, dtype=var.dtype, persistable=True)


def _load(block: Any, name: str, var: Any, path: str) -> Any:
    read = _like(block, name, var)
    block.append_op(type="load", inputs={}, outputs={"Out": [read]}, attrs={"file_path": path})
    return read
