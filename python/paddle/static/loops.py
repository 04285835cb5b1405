"""While and while_loop."""

from __future__ import annotations

import math

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._basics.structure import assert_same_structure, copy_mutable_vars, hold_mutable_vars, map_structure
from paddle._programs.program import Program
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = ["While", "while_loop"]


class BlockGuard:
    """``with BlockGuard(program):`` operators go to a new block inside the current one."""

    def __init__(self, main_program) -> None:
        if not isinstance(main_program, Program):
            raise TypeError("BlockGuard: a Program is expected")
        self.main_program = main_program

    def __enter__(self) -> None:
        self.main_program._create_block()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        self.main_program._rollback()
        return exc_type is None


def get_inputs_outputs_in_block(block, inner_inputs, inner_outputs, helper=None) -> tuple[dict, dict]:
    """(names that the block's operators read before writing them, names that they write), each in order.

    Arrays that live in the block only are no inputs.
    """
    inputs, outputs = dict.fromkeys(inner_inputs), dict.fromkeys(inner_outputs)
    for op in block.ops:
        inputs.update((n, None) for n in op.input_arg_names if n not in outputs)
        outputs.update((n, None) for n in op.output_arg_names)
    parent = block.program.block(block.parent_idx)
    for name in list(inputs):
        own = block.vars.get(name)
        if own is not None and own.type == VarType.LOD_TENSOR_ARRAY and parent._find_var_recursive(name) is None:
            del inputs[name]
    return inputs, outputs


class _WhileGuard(BlockGuard):
    def __init__(self, while_op: While) -> None:
        super().__init__(while_op.helper.main_program)
        self.while_op = while_op

    def __enter__(self) -> None:
        self.while_op.status = While.IN_WHILE_BLOCK
        super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        if exc_type is None:
            self.while_op.status = While.AFTER_WHILE_BLOCK
            self.while_op._complete()
        return super().__exit__(exc_type, exc_val, exc_tb)


class While:
    """A loop: its block runs as long as `cond` holds.

    Args:
        cond (Variable): bool, shape [1]; the block must write it.
        is_test (bool): True keeps nothing for a gradient.
        name (str, optional): a name.

    Raises:
        TypeError: when `cond` is not bool or has more than one element.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> i = fluid.layers.fill_constant([1], "int64", 0)
        >>> n = fluid.layers.fill_constant([1], "int64", 10)
        >>> cond = fluid.layers.less_than(i, n)
        >>> with fluid.layers.While(cond).block():
        ...     _ = fluid.layers.increment(i)
        ...     _ = fluid.layers.less_than(i, n, cond=cond)
    """

    BEFORE_WHILE_BLOCK = 0
    IN_WHILE_BLOCK = 1
    AFTER_WHILE_BLOCK = 2

    def __init__(self, cond, is_test=False, name=None) -> None:
        self.helper = LayerHelper("while", name=name)
        self.status = While.BEFORE_WHILE_BLOCK
        check_variable_and_dtype(cond, "cond", ["bool"], "fluid.layers.While")
        _check_one_element(cond, "condition")
        self.cond_var = cond
        self.is_test = is_test

    def block(self) -> BlockGuard:
        """The guard under which the body is built."""
        return _WhileGuard(self)

    def _complete(self) -> None:
        program = self.helper.main_program
        body = program.current_block()
        parent = program.block(body.parent_idx)
        inputs, outputs = get_inputs_outputs_in_block(body, (), [self.cond_var.name])
        outside = [parent._find_var_recursive(n) for n in outputs]
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        parent.append_op(
            type="while",
            inputs={"X": [parent._var_recursive(n) for n in inputs], "Condition": [self.cond_var]},
            outputs={"Out": [v for v in outside if v is not None], "StepScopes": [scopes]},
            attrs={"sub_block": body, "is_test": self.is_test},
        )


def _check_one_element(var, what: str) -> None:
    if math.prod(var.shape) != 1:
        raise TypeError(f"the shape of {what} should be [1], but given shape as {list(var.shape)}.")


def assign_skip_lod_tensor_array(value, target) -> None:
    """Copy `value` to `target`, but not arrays of an outer block, which the body changed in place."""
    if not mode.in_dygraph_mode() and value.type == VarType.LOD_TENSOR_ARRAY:
        program = value.block.program
        parent = program.block(program.current_block().parent_idx)
        if parent._find_var_recursive(value.name) is not None:
            return
    _ops.assign(value, Out=target)


def while_loop(cond, body, loop_vars, is_test=False, name=None):
    """Run `body` on the loop variables as long as `cond` of them holds.

    Args:
        cond (callable): takes the loop variables, gives a bool Variable of shape [1].
        body (callable): takes the loop variables, gives their next values, structured alike.
        loop_vars (list|tuple): Variables or nests of these, not empty.
        is_test (bool): True keeps nothing for a gradient.

    Returns:
        The loop variables.

    Raises:
        TypeError: for arguments of other types. ValueError: when `body` gives another structure, or there are no vars.

    Examples:
        >>> import paddle
        >>> i, n = paddle.full([1], 0, "int64"), paddle.full([1], 10, "int64")
        >>> i, n = paddle.static.nn.while_loop(lambda i, n: i < n, lambda i, n: [i + 1, n], [i, n])
    """
    helper = LayerHelper("while_loop", name=name)
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"{what} in while_loop should be callable")
    if not isinstance(loop_vars, (list, tuple)):
        check_type(loop_vars, "loop_vars", (list, tuple), "fluid.layers.while_loop")
    if len(loop_vars) == 0:
        raise ValueError("while_loop: loop_vars has no entry")
    pre_cond = cond(*loop_vars)
    check_variable_and_dtype(pre_cond, "var of cond returned", ["bool"], "fluid.layers.while_loop")
    _check_one_element(pre_cond, "the variable returned by cond")

    if mode.in_dygraph_mode():
        going = bool(pre_cond.numpy().item())
        while going:
            outputs = _as_sequence(body(*loop_vars))
            if len(outputs) != len(loop_vars):
                raise ValueError("while_loop: body must return what loop_vars holds, in number, structure and types")
            going = bool(cond(*outputs).numpy().item())
            map_structure(assign_skip_lod_tensor_array, outputs, list(loop_vars))
        return loop_vars

    loop = While(pre_cond, is_test, helper.name)
    with loop.block():
        outputs = _as_sequence(body(*(copy_mutable_vars(loop_vars) if hold_mutable_vars(loop_vars) else loop_vars)))
        try:
            assert_same_structure(list(outputs), list(loop_vars), check_types=False)
        except ValueError as error:
            raise ValueError(
                f"while_loop: body must return what loop_vars holds, in number and structure: {error}"
            ) from None
        now = cond(*outputs)
        map_structure(assign_skip_lod_tensor_array, list(outputs), list(loop_vars))
        _ops.assign(now, Out=pre_cond)
    return loop_vars


def _as_sequence(value):
    return value if isinstance(value, (list, tuple)) else [value]
