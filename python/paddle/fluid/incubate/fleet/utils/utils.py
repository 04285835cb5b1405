"""Programs in files: loading, saving, conversion, comparison, drawing."""

from __future__ import annotations

import logging
import os
from typing import Any

from paddle._basics.dtypes import VarType
from paddle._basics.missing import getter
from paddle._programs.program import Program
from paddle._programs.text_reading import program_bytes
from paddle.static.drawing import draw_block
from paddle.static.picture import render
from paddle.static.vars_io import is_persistable

__all__ = [
    "load_program",
    "save_program",
    "program_type_trans",
    "parse_program",
    "check_pruned_program_vars",
    "graphviz",
    "check_saved_vars_try_dump",  # noqa: F822 (imported when it is first named)
]

__getattr__ = getter(__name__, {"check_saved_vars_try_dump": "paddle.fluid.incubate.fleet.utils.try_dump"})

logger = logging.getLogger(__name__)
_HOLDERS = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST)


def load_program(model_filename: str, is_text: bool = False) -> Program:
    """Loads a Program from a file of bytes or of protobuf's text.

    Raises:
        ValueError: for another kind of file.

    Examples:
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.utils.utils import load_program, save_program
        >>> save_program(fluid.Program(), "empty.pbtxt", is_text=True)
        >>> load_program("empty.pbtxt", is_text=True).num_blocks
        1
    """
    if is_text:
        with open(model_filename, encoding="utf-8") as f:
            return Program.parse_from_string(program_bytes(f.read()))
    with open(model_filename, "rb") as f:
        return Program.parse_from_string(f.read())


def save_program(program: Program, model_filename: str = "__model__", is_text: bool = False) -> None:
    """Writes a Program to a file, as bytes or as protobuf's text."""
    if is_text:
        with open(model_filename, "w", encoding="utf-8") as f:
            f.write(program.to_string(True))  # 2.0.2 writes str(program), which it cannot load
    else:
        with open(model_filename, "wb") as f:
            f.write(program.desc.serialize_to_string())


def program_type_trans(prog_dir: str, prog_fn: str, is_text: bool) -> str:
    """Converts a Program file from text to bytes (suffix .bin), or from bytes to text (.pbtxt).

    Returns:
        str: the new file's name.

    Examples:
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.utils.utils import program_type_trans, save_program
        >>> save_program(fluid.Program(), "main")
        >>> program_type_trans(".", "main", is_text=False)
        'main.pbtxt'
    """
    name = prog_fn + (".bin" if is_text else ".pbtxt")
    save_program(load_program(os.path.join(prog_dir, prog_fn), is_text), os.path.join(prog_dir, name), not is_text)
    return name


def check_pruned_program_vars(train_prog: Program, pruned_prog: Program) -> bool:
    """Whether the variables of a pruned Program have the shapes and types of the training Program.

    Logs differences, and variables that the training Program lacks, which alone do not make the result False.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.utils.utils import check_pruned_program_vars
        >>> paddle.enable_static()
        >>> out = fluid.layers.fc(fluid.data("x", [None, 3]), 2)
        >>> main = fluid.default_main_program()
        >>> check_pruned_program_vars(main, main.clone(for_test=True))
        True
    """
    same, trained = True, train_prog.global_block().vars
    for var in [v for v in pruned_prog.list_vars() if is_persistable(v) and v.type not in _HOLDERS]:
        other = trained.get(var.name)
        if other is None:
            logger.error("variable %s is not in the Program that trains", var.name)
        elif var.shape != other.shape or var.dtype != other.dtype:
            logger.error(
                "variable %s: %s %s in the pruned Program, %s %s in the one that trains",
                var.name,
                var.shape,
                var.dtype,
                other.shape,
                other.dtype,
            )
            same = False
    return same


def graphviz(block: Any, output_dir: str = "", filename: str = "debug") -> None:
    """Draws a block: `filename`.dot, and `filename`.pdf where the command ``dot`` of Graphviz is installed.

    Examples:
        >>> import os, paddle, paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.utils.utils import graphviz
        >>> paddle.enable_static()
        >>> graphviz(fluid.layers.tanh(fluid.data("x", [2])).block, filename="net")
        >>> os.path.exists("net.dot")
        True
    """
    path = os.path.join(output_dir, filename)
    draw_block(block.desc, path + ".dot")
    if render(path + ".dot") is None:
        logger.warning("graphviz: the command dot is not installed, or failed: %s.dot is there, no pdf", path)


def parse_program(program: Program, output_dir: str) -> None:
    """Lists a Program in three files of a folder: vars_persistable.log, vars_all.log and ops.log, a line for each.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.utils.utils import parse_program
        >>> paddle.enable_static()
        >>> y = fluid.layers.tanh(fluid.data("x", [2]))
        >>> parse_program(fluid.default_main_program(), ".")
        >>> print(open("ops.log").read().split("input")[0].strip())
        ops:
        {'type': 'tanh', '
    """

    def described(var: Any, keys: str) -> dict[str, Any]:
        values = {key: getattr(var, key) for key in keys.split()}
        return {key: value if key == "lod_level" else str(value) for key, value in values.items()}

    variables = list(program.list_vars())
    kept = [described(v, "name shape lod_level dtype type") for v in variables if is_persistable(v)]
    whole = "name shape lod_level dtype"
    every = [described(v, "name type" if v.type in _HOLDERS else whole) for v in variables]
    ops = [described(op, "type input_arg_names output_arg_names") for op in program.global_block().ops]
    files = (("vars_persistable", "persistable vars", kept), ("vars_all", "all vars", every), ("ops", "ops", ops))
    for file, title, rows in files:
        with open(os.path.join(output_dir, file + ".log"), "w", encoding="utf-8") as f:
            f.write("\n".join([f"{title}:", *map(str, rows)]) + "\n")
