"""Models whose table of embeddings lay on parameter servers, in one process: for inference, or to train on."""

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
    """Lets a trainer's Program look its distributed table up here: the table is SelectedRows of the same name.

    2.0.2 puts an operator in that it has not; here it is the lookup of embeddings, which reads SelectedRows.

    Args:
        program (Program): a trainer's, of the DistributeTranspiler.

    Returns:
        Program: the same; None, with nothing done, when it has no distributed table.

    Raises:
        ValueError: when it does not ask servers for rows of the table.
    """
    name = program._distributed_lookup_table
    if not name:
        return None
    block = program.global_block()
    kinds = [op.type for op in block.ops]
    at = next((i for i in range(len(kinds)) if kinds[i : i + 3] == ["split_ids", "prefetch", "merge_ids"]), None)
    if at is None:
        raise ValueError(f"convert_dist_to_sparse_program: the Program does not ask servers for rows of {name}")
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
    """Reads the variables of a parameter server, to train on: of those that are cut into slices its own slice.

    Args:
        dirname (str): a folder of whole variables.
        executor (Executor): reads.
        program (Program): a server's, of the DistributeTranspiler.
        lookup_table_var (str), lookup_table_var_path (str): the distributed table, and its file.

    Raises:
        ValueError: when something is not there, or no Program.
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
    """Reads a model whose table servers wrote in parts to ``__lookup_table__``: they become one variable again.

    Args:
        dirname (str): the model's folder.
        executor (Executor): reads.
        program (Program): the model; None: that in the file ``__model__`` there.
        lookup_table_var_name (str): the table; its parts are files that have this name and ``_`` with a number.

    Returns:
        Program: the model.

    Raises:
        ValueError: when a folder is not there, or what is given is no Program.
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
    # what this function wrote before has no number
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
