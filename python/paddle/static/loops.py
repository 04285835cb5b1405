"""Loops: while_loop."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._basics.structure import (
    assert_same_structure,
    copy_mutable_vars,
    flatten,
    hold_mutable_vars,
    map_structure,
    pack_sequence_as,
)
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle._programs.while_block import (  # noqa: F401 (users of loops take them from here)
    BlockGuard,
    While,
    check_one_element,
    get_inputs_outputs_in_block,
)
from paddle.nn.layer_helper import LayerHelper

__all__ = ["While", "while_loop"]


def assign_skip_lod_tensor_array(value, target) -> None:
    """Copy `value` to `target`, except arrays of an outer block, which the body changes in place."""
    if mode.in_static_mode() and value.type == VarType.LOD_TENSOR_ARRAY:
        program = value.block.program
        parent = program.block(program.current_block().parent_idx)
        if parent._find_var_recursive(value.name) is not None:
            return
    _ops.assign(value, Out=target)


def _replace_all(outputs, loop_vars) -> None:
    """Replace the loop variables by the body's outputs at once: outputs that are other loop variables are copied."""
    variables = [id(v) for v in flatten(list(loop_vars))]
    at = iter(variables)

    def copied(output):
        own = next(at)
        return _ops.assign(output) if id(output) != own and id(output) in variables else output

    outputs = pack_sequence_as(list(outputs), [copied(v) for v in flatten(list(outputs))])
    map_structure(assign_skip_lod_tensor_array, outputs, list(loop_vars))


def while_loop(cond, body, loop_vars, is_test=False, name=None):
    """Run `body` on the loop variables as long as `cond` of them holds.

    Args:
        cond (callable): takes the loop variables, returns a bool Variable of shape [1].
        body (callable): takes the loop variables, returns their next values in the same structure.
        loop_vars (list|tuple): Variables or nests of these, not empty.
        is_test (bool): True keeps no values for a gradient.

    Returns:
        The loop variables.

    Raises:
        TypeError: for arguments of other types. ValueError: when `body` returns another structure, or `loop_vars` is
            empty.

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
    check_one_element(pre_cond, "the variable returned by cond")

    if not mode.in_static_mode():
        going = bool(pre_cond.numpy().item())
        while going:
            outputs = _as_sequence(body(*loop_vars))
            if len(outputs) != len(loop_vars):
                raise ValueError("while_loop: body must return what loop_vars holds, in number, structure and types")
            going = bool(cond(*outputs).numpy().item())
            _replace_all(outputs, loop_vars)
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
        _replace_all(outputs, loop_vars)
        _ops.assign(now, Out=pre_cond)
    return loop_vars


def _as_sequence(value):
    return value if isinstance(value, (list, tuple)) else [value]
