"""fluid.debugger: a Program as pseudocode or as a Graphviz drawing."""

from __future__ import annotations

import re
from typing import Any

from paddle._basics.dtypes import VarType, convert_dtype
from paddle._basics.names import GRAD_VAR_SUFFIX
from paddle._basics.op_proto import is_gradient
from paddle.static.drawing import draw_block

__all__ = ["draw_block_graphviz", "pprint_block_codes", "pprint_program_codes"]

_KINDS = {VarType.SELECTED_ROWS: "SelectedRows", VarType.LOD_TENSOR_ARRAY: "TensorArray"}


def pprint_program_codes(program_desc: Any) -> str:
    """The variables and forward operators of every block of a Program, one per line.

    Args:
        program_desc (Program): the Program.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> program = fluid.Program()
        >>> with fluid.program_guard(program):
        ...     x = fluid.data("x", [2, 3])
        ...     y = fluid.layers.relu(x)
        >>> print(fluid.debugger.pprint_program_codes(program))  # doctest: +ELLIPSIS
        // block-0  parent--1
        // variables
        Tensor x (tensor(type=float32, shape=[2, 3]))
        ...
    """
    return "\n".join(pprint_block_codes(program_desc.block(i)) for i in range(program_desc.num_blocks))


def pprint_block_codes(block_desc: Any, show_backward: bool = False) -> str:
    """As `pprint_program_codes`, for one block.

    Args:
        block_desc (Block): the block.
        show_backward (bool): include gradients.
    """
    variables = [v for v in block_desc.vars.values() if show_backward or GRAD_VAR_SUFFIX not in v.name]
    ops = [op for op in block_desc.ops if show_backward or not _is_backward(op)]
    lines = [f"// block-{block_desc.idx}  parent-{block_desc.parent_idx}", "// variables"]
    lines += [_variable(v) for v in variables]
    return "\n".join([*lines, "", "// operators", *map(_operator, ops), ""])


def _is_backward(op: Any) -> bool:
    names = (*op.input_names, *op.output_names, *op.input_arg_names, *op.output_arg_names)
    return is_gradient(op.type) or any(GRAD_VAR_SUFFIX in name for name in names)


def _variable(var: Any) -> str:
    if var.type not in (VarType.LOD_TENSOR, *_KINDS):
        return f"{var.type.name} {var.name}"
    tensor = f"tensor(type={convert_dtype(var.dtype)}, shape={list(var.shape)})"
    level = 0 if var.type == VarType.SELECTED_ROWS else var.lod_level
    kind = _KINDS.get(var.type) or ("LoDTensor" if level else "Tensor")
    return f"{kind} {var.name} ({f'level={level}, ' if level else ''}{tensor})"


def _operator(op: Any) -> str:
    def names(found: list[str]) -> str:
        return found[0] if len(found) == 1 else str(found)

    outputs = ", ".join(names(op.output(slot)) for slot in op.output_names)
    attrs = {name: op.attr(name) for name in op.attr_names if not name.startswith("op_")}
    if op.type == "fill_constant":
        return f"{outputs} = {attrs['value']} [shape={attrs['shape']}]"
    if "dtype" in attrs:
        attrs["dtype"] = convert_dtype(attrs["dtype"])
    inputs = ", ".join(f"{slot}={names(op.input(slot))}" for slot in op.input_names)
    return f"{outputs} = {op.type}({inputs}) [{{{','.join(f'{k}={v}' for k, v in attrs.items())}}}]"


def draw_block_graphviz(block: Any, highlights: list[str] | None = None, path: str = "./temp.dot") -> None:
    """Writes a block in Graphviz format: ``dot -Tsvg path`` draws it.

    Args:
        block (Block): the block.
        highlights (list of str, optional): regular expressions; variables that match at the start are orange.
        path (str): the file.
    """
    patterns = [re.compile(pattern) for pattern in highlights or ()]
    draw_block(block.desc, path, lambda name: any(p.match(name) for p in patterns))
