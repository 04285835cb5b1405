"""Rewriting of a Program for mixed precision and pure float16."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from paddle._basics import flags
from paddle._basics.dtypes import VarType
from paddle._basics.names import OP_NAMESCOPE, OP_ROLE, OP_ROLE_VAR, OpRole
from paddle._programs.name_scope import name_scope
from paddle._programs.scope import global_scope

from .fp16_lists import AutoMixedPrecisionLists

__all__ = ["fp16_guard", "cast_model_to_fp16", "cast_parameters_to_fp16"]

_TENSORS = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY)
_GUARD = "__use_fp16__"
#: slots of normalisations that may be float16; their scales and statistics stay float32
_NORMS = ("batch_norm", "fused_bn_add_activation", "layer_norm")
_NORM_INPUTS, _NORM_OUTPUTS = ("X", "Z"), ("Y",)
#: operators that read data are not changed
_READERS = ("create_py_reader", "read")
#: branches and loops, whose operators are converted themselves
_BLOCKS = ("conditional_block", "while")
_SHORT = {VarType.FP16: "fp16", VarType.BF16: "bf16", VarType.FP32: "fp32"}


def low_type() -> VarType:
    """The element type of low precision: float16, unless `FLAGS_cpu_amp` is bfloat16."""
    return VarType.BF16 if flags.cpu_amp() == "bfloat16" else VarType.FP16


def _inputs(op: Any, whole: bool = False) -> list[str]:
    """The variables that an operator reads; of normalisations only those that may be float16, unless `whole`."""
    slots = [s for s in op.input_names if whole or op.type not in _NORMS or s in _NORM_INPUTS]
    return [name for slot in slots for name in op.input(slot)]


def _outputs(op: Any) -> list[str]:
    slots = [s for s in op.output_names if op.type not in _NORMS or s in _NORM_OUTPUTS]
    return [name for slot in slots for name in op.output(slot)]


def _cast(block: Any, at: int, var: Any, dtype: Any) -> tuple[Any, bool]:
    """`var` cast to another type, and whether a cast operator was inserted at `at`: a variable has one cast."""
    name = f"{var.name}.cast_{_SHORT[dtype]}"
    known = block.vars.get(name)
    if known is not None and known.dtype == dtype:
        return known, False
    out = block.create_var(name=name, dtype=dtype, persistable=False, stop_gradient=var.stop_gradient)
    attrs = {"in_dtype": var.dtype, "out_dtype": dtype}
    block._insert_op(at, type="cast", inputs={"X": var}, outputs={"Out": out}, attrs=attrs)
    return out, True


def _cast_inputs(block: Any, op: Any, at: int, source: Any, target: Any) -> int:
    """Inserts casts of an operator's inputs from `source` to `target` before it; returns their number."""
    inserted = 0
    for name in dict.fromkeys(_inputs(op, whole=source != VarType.FP32)):
        var = block._var_recursive(name)
        if var.type not in _TENSORS or var.dtype == target:
            continue
        if var.dtype == source:
            out, new = _cast(block, at, var, target)
            inserted += new
            written = name in op.output_arg_names
            op._rename_input(name, out.name)
            op._rename_output(name, out.name)
            if _rename_within(op, name, out.name) and written:
                # a loop leaves its last value to the operators behind it
                attrs = {"in_dtype": target, "out_dtype": source}
                index = next(i for i, each in enumerate(block.ops) if each is op) + 1
                block._insert_op(index, type="cast", inputs={"X": out}, outputs={"Out": var}, attrs=attrs)
        elif op.has_attr("in_dtype"):
            op._set_attr("in_dtype", target)
    if source == VarType.FP32:
        for name in _outputs(op):
            var = block.var(name)
            if var.type in _TENSORS and var.dtype == VarType.FP32:
                var.desc.set_dtype(target)
                if op.has_attr("out_dtype"):
                    op._set_attr("out_dtype", target)
    return inserted


def _rename_within(op: Any, name: str, new: str) -> bool:
    """Renames a variable in the operators of a branch or loop, and of those within it; False for other operators."""
    if not op.has_attr("sub_block"):
        return False
    for inner in op.block.program.block(op._block_attr_id("sub_block")).ops:
        inner._rename_input(name, new)
        inner._rename_output(name, new)
        _rename_within(inner, name, new)
    return True


def find_true_prev_op(ops: list[Any], cur_op: Any, var_name: str) -> Any:
    """The operator before `cur_op` that writes `var_name`, or None.

    Raises:
        ValueError: when several operators do.
    """
    before = ops[: next((i for i, op in enumerate(ops) if op is cur_op), len(ops))]
    found = [op for op in before for name in op.output_arg_names if name == var_name]
    if len(found) > 1:
        raise ValueError(f"mixed precision: {len(found)} operators write {var_name}, where one is expected")
    return found[0] if found else None


def find_true_post_op(ops: list[Any], cur_op: Any, var_name: str) -> list[Any]:
    """The operators after `cur_op` that read `var_name`."""
    at = next((i for i, op in enumerate(ops) if op is cur_op), len(ops))
    return [op for op in ops[at + 1 :] for name in op.input_arg_names if name == var_name]


def find_op_index(block_desc: Any, cur_op_desc: Any) -> int:
    """The position of an operator's description in that of a block; -1 where it is not in it."""
    return next((i for i in range(block_desc.op_size()) if block_desc.op(i) == cur_op_desc), -1)


@contextlib.contextmanager
def fp16_guard() -> Iterator[None]:
    """A context manager: with `use_fp16_guard`, pure float16 training computes only operators created in it in float16.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/static/amp/fp16_guard_en.html

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 8], "float32")
        >>> with paddle.static.amp.fp16_guard():
        ...     loss = paddle.mean(paddle.static.nn.fc(x, 2))
        >>> paddle.disable_static()
    """
    with name_scope(_GUARD):
        yield


def _keeps_fp32(op: Any, lists: AutoMixedPrecisionLists, guarded: bool) -> bool:
    if op.type in lists.unsupported_list and op.type != "read_from_array":  # it copies elements of any type
        return True
    if any("learning_rate" in name for name in (*op.input_arg_names, *op.output_arg_names)):
        return True
    return guarded and not (op.has_attr(OP_NAMESCOPE) and _GUARD in op.attr(OP_NAMESCOPE))


def cast_model_to_fp16(
    program: Any, amp_lists: AutoMixedPrecisionLists | None = None, use_fp16_guard: bool = True
) -> set[str]:
    """Converts the variables and operators of a Program to float16, except those that must stay float32.

    With ``FLAGS_cpu_amp=bfloat16`` to bfloat16.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/static/amp/cast_model_to_fp16_en.html

    Args:
        program (Program): changed in place: types of variables, `dtype` attributes, and casts around float32 operators.
        amp_lists (CustomOpLists, optional): the operators that stay float32; the default lists when None.
        use_fp16_guard (bool): convert only operators created in :func:`fp16_guard`.

    Returns:
        set[str]: variables that are read in float16, including the parameters to cast with
        :func:`cast_parameters_to_fp16`.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> main = paddle.static.Program()
        >>> with paddle.static.program_guard(main, paddle.static.Program()):
        ...     y = paddle.tanh(paddle.static.data("x", [None, 8], "float32"))
        >>> sorted(paddle.static.amp.cast_model_to_fp16(main, use_fp16_guard=False))
        ['x']
        >>> y.dtype
        VarType.FP16
        >>> paddle.disable_static()
    """
    lists, low = amp_lists or AutoMixedPrecisionLists(), low_type()
    origin = [op for block in program.blocks for op in block.ops]
    kept: set[Any] = set()
    half: set[str] = set()
    for block in program.blocks:
        for op in block.ops:
            if op.type in _READERS or op.type in _BLOCKS:
                continue
            if _keeps_fp32(op, lists, use_fp16_guard):
                kept.add(op)
                continue
            for names, read in ((_inputs(op), True), (_outputs(op), False)):
                for name in names:
                    var = block._find_var_recursive(name)
                    if var is None or var.type not in _TENSORS or var.dtype != VarType.FP32:
                        continue
                    var.desc.set_dtype(low)
                    if read:
                        half.add(name)
            for attr in ("in_dtype", "out_dtype", "dtype"):
                if op.has_attr(attr) and op.attr(attr) == int(VarType.FP32):
                    op._set_attr(attr, low)
    for block in program.blocks:
        renamed: dict[str, str] = {}
        at = 0
        while at < len(block.ops):
            op = block.ops[at]
            at += 1
            if op not in kept:
                continue
            at += _cast_inputs(block, op, at - 1, low, VarType.FP32)
            behind = at
            for name in op.output_arg_names:
                var = block.vars.get(name)
                if var is None or var.type not in _TENSORS or var.dtype != low:
                    continue
                var.desc.set_dtype(VarType.FP32)
                if any(user not in kept for user in find_true_post_op(block.ops, op, name)):
                    out, new = _cast(block, behind, var, low)
                    at += new
                    renamed[name] = out.name
        for op in origin:
            if op.block is block and op not in kept:
                for name in set(op.input_arg_names) & set(renamed):
                    op._rename_input(name, renamed[name])
    return half


def _bfloat16_bits(value: np.ndarray) -> np.ndarray:
    """float32 values rounded to bfloat16 (halves to even), as bits in uint16."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(value), 0x7FC0, rounded).astype(np.uint16)


def cast_parameters_to_fp16(place: Any, program: Any, scope: Any = None, to_fp16_var_names: Any = None) -> None:
    """Casts the values of parameters to float16, with ``FLAGS_cpu_amp=bfloat16`` to bfloat16.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/static/amp/cast_parameters_to_fp16_en.html

    Args:
        place (CPUPlace|CUDAPlace): the parameters' place.
        program (Program): the Program of the parameters.
        scope (Scope, optional): the Scope of the values; the global one when None.
        to_fp16_var_names (set|list, optional): the result of :func:`cast_model_to_fp16`.
    """
    wanted = set(to_fp16_var_names or ())
    scope = scope or global_scope()
    for param in (p for block in program.blocks for p in block.all_parameters()):
        if param.name in wanted:
            tensor = scope.find_var(param.name).get_tensor()
            value = np.array(tensor)
            if low_type() == VarType.FP16:
                tensor.set(value.astype(np.float16), place)
            elif value.dtype == np.float32:
                tensor.set(_bfloat16_bits(value), place)


def rewrite_program(main_prog: Any, amp_lists: AutoMixedPrecisionLists) -> None:
    """Inserts casts into the global block: operators of the white list compute in float16, those of the black list in
    float32, those of the gray list in the type of the operators before them.
    """
    block, low = main_prog.global_block(), low_type()
    white: set[Any] = set()
    black: set[Any] = set()

    def side_of(op: Any) -> set[Any] | None:
        if amp_lists.black_varnames and amp_lists.black_varnames & {*op.input_arg_names, *op.output_arg_names}:
            return black
        if op.type in amp_lists.black_list:
            return black
        if op.type in amp_lists.white_list:
            return white
        if op.type not in amp_lists.gray_list:
            return black
        sides = []
        for name in op.input_arg_names:
            maker = block.var(name).op
            if maker is op:  # written in place
                maker = find_true_prev_op(block.ops, op, name)
            if maker is None:
                continue
            if maker in black or maker.type in amp_lists.black_list:
                sides.append(black)
            elif maker in white or maker.type in amp_lists.white_list:
                sides.append(white)
        return black if any(s is black for s in sides) else white if sides else None

    for op in block.ops:
        if op.type not in _READERS:
            side = side_of(op)
            if side is not None:
                side.add(op)
    at = 0
    while at < len(block.ops):
        op = block.ops[at]
        if op in black:
            at += _cast_inputs(block, op, at, low, VarType.FP32)
        elif op in white:
            at += _cast_inputs(block, op, at, VarType.FP32, low)
        at += 1


def update_role_var_grad(main_prog: Any, params_grads: list[tuple[Any, Any]]) -> None:
    """Where the gradient of a float32 parameter is a cast of a float16 gradient, ranks exchange the float16 gradient:
    `op_role_var` moves to its operator, and the cast gets the role Optimize.

    Raises:
        ValueError: for a cast outside of backward, or whose result backward reads.
    """
    block = main_prog.global_block()
    for param, grad in params_grads:
        op = grad.op
        if grad.dtype != VarType.FP32 or op.type != "cast":
            continue
        if not (op.attr(OP_ROLE) & int(OpRole.Backward) and op.has_attr(OP_ROLE_VAR)):
            raise ValueError(f"mixed precision: the cast that gives {grad.name} is no operator of backward: {op}")
        op._remove_attr(OP_ROLE_VAR)
        half = op.input("X")[0]
        maker = find_true_prev_op(block.ops, op, half)
        names = [param.name, half]
        if maker.has_attr(OP_ROLE_VAR):
            names += maker.attr(OP_ROLE_VAR)
        maker._set_attr(OP_ROLE_VAR, names)
        op._set_attr(OP_ROLE, int(OpRole.Optimize))
        if op is block.ops[-1]:
            continue
        users = find_true_post_op(block.ops, op, grad.name)
        if users:
            raise ValueError(f"mixed precision: {grad.name} is read by {users[0].type} before the update")
        _move_to_end(block, op)


def _move_to_end(block: Any, op: Any) -> None:
    # later steps read the gradient's `op`: it must be the operator that remains
    desc = block.desc.append_op()
    desc.copy_from(op.desc)
    at = op.idx
    block.desc._remove_op(at, at + 1)
    del block.ops[at]
    op.desc = _last_desc(block)
    block.ops.append(op)


def _last_desc(block: Any) -> Any:
    """The description of the last operator of a block."""
    return block.desc.op(block.desc.op_size() - 1)
