"""Conditional control flow: cond, case, switch_case, Switch."""

from __future__ import annotations

from functools import partial

import paddle._core as core
from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._basics.names import EMPTY_VAR_NAME, GRAD_VAR_SUFFIX, OP_ROLE, OpRole
from paddle._basics.structure import assert_same_structure, flatten, map_structure, pack_sequence_as
from paddle._programs.backward_ops import _infer_var_data_type_shape_
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

from .loops import BlockGuard, get_inputs_outputs_in_block

__all__ = ["cond", "case", "switch_case", "Switch", "ConditionalBlock"]


class _ConditionalBlockGuard(BlockGuard):
    def __init__(self, block: ConditionalBlock) -> None:
        check_type(block, "block", ConditionalBlock, "ConditionalBlockGuard")
        super().__init__(block.helper.main_program)
        self.block = block

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        if exc_type is None:
            self.block.complete()
        return super().__exit__(exc_type, exc_val, exc_tb)


class ConditionalBlock:
    """A block that runs when its condition holds.

    Args:
        inputs (list of Variable): one bool of shape [1] when scalar; else the block runs when all are non-empty.
        is_scalar_condition (bool): whether the condition is a scalar.
    """

    def __init__(self, inputs, is_scalar_condition=False, name=None) -> None:
        for each in inputs:
            check_type(each, "input", Variable, "ConditionalBlock")
        self.inputs = inputs
        self.is_scalar_condition = is_scalar_condition
        self.helper = LayerHelper("conditional_block", name=name)

    def block(self) -> BlockGuard:
        """The guard in which the block is built."""
        return _ConditionalBlockGuard(self)

    def complete(self) -> None:
        """Append the conditional_block operator for the current block to its parent."""
        program = self.helper.main_program
        inside = program.current_block()
        parent = program.block(inside.parent_idx)
        inputs, outputs = get_inputs_outputs_in_block(inside, (), ())
        outside = [parent._find_var_recursive(n) for n in outputs]
        scope = parent.create_var(type=VarType.STEP_SCOPES)
        op = parent.append_op(
            type="conditional_block",
            inputs={"Cond": self.inputs, "Input": [parent._var_recursive(n) for n in inputs]},
            outputs={"Out": [v for v in outside if v is not None], "Scope": [scope]},
            attrs={"sub_block": inside, "is_scalar_condition": self.is_scalar_condition},
        )
        backward = inside.backward_block_idx
        if backward not in (-1, inside.idx):
            self._append_grad(parent, program.block(backward), op)

    def _append_grad(self, parent, grad_block, op) -> None:
        """Append the gradient of a loss that was differentiated inside the block, under the same condition."""
        inputs, _ = get_inputs_outputs_in_block(grad_block, (), ())
        names = [n for n in inputs if parent._find_var_recursive(n) is not None]
        descs, _ = core.get_grad_op_desc(op.desc, set(), [grad_block.desc])
        desc = parent.desc.append_op()
        desc.copy_from(descs[0])
        desc._set_attr(OP_ROLE, int(OpRole.Backward))
        desc.set_input("Input", names)
        desc.set_output("Input@GRAD", [n + GRAD_VAR_SUFFIX for n in names])
        new = []
        for name in desc.output_arg_names():
            if name != EMPTY_VAR_NAME and not grad_block.desc.has_var_recursive(name):
                grad_block.desc.var(name)
                new.append(name)
        desc.infer_var_type(grad_block.desc)
        desc.infer_shape(grad_block.desc)
        for name in new:
            _infer_var_data_type_shape_(name, grad_block)
        self.helper.main_program._sync_with_cpp()


def _check_callable(function, what: str) -> None:
    if function is not None and not callable(function):
        raise TypeError(f"The {what} in cond must be callable, but received {type(function).__name__}")


def cond(pred, true_fn=None, false_fn=None, name=None):
    """`true_fn()` when `pred` holds, else `false_fn()`.

    Args:
        pred (Variable): bool of shape [1].
        true_fn, false_fn (callable, optional): functions without arguments that return None, a Variable, or a nest of
            Variables, in the same structure.

    Returns:
        The function's result; in static mode new Variables in its structure.

    Raises:
        TypeError: when `pred` is not bool, or a function is not callable.
        ValueError: when the results differ in structure.

    Examples:
        >>> import paddle
        >>> a, b = paddle.full([1], 1.0), paddle.full([1], 2.0)
        >>> float(paddle.static.nn.cond(a < b, lambda: a + b, lambda: a - b))
        3.0
    """
    _check_callable(true_fn, "true_fn")
    _check_callable(false_fn, "false_fn")
    if not mode.in_static_mode():
        assert isinstance(pred, Variable), "cond: pred must be a Variable"
        value = pred.numpy()
        assert value.size == 1, "a condition must have one element"
        function = true_fn if value.item() else false_fn
        return None if function is None else function()

    check_variable_and_dtype(pred, "pred", ["bool"], "fluid.layers.cond")
    check_type(name, "name", (str, type(None)), "fluid.layers.cond")
    results: list = []  # the variables that both branches assign to
    structures: list = []
    for function, condition in ((true_fn, pred), (false_fn, None)):
        if function is None:
            structures.append(None)
            continue
        block = ConditionalBlock([_ops.logical_not(pred) if condition is None else condition], True)
        with block.block():
            output = function()
            structures.append(output)
            if output is None:
                continue
            if structures[0] is not None and len(structures) == 2:
                _check_alike(structures[0], output)
            values = flatten(output)
            if not results:
                results = [_in_parent(v, block.helper) for v in values]
            for value, result in zip(values, results, strict=False):
                _ops.assign(value, Out=result)
    first, second = structures
    if first is None and second is None:
        return None
    if first is None or second is None:
        which = ("None", "non-None") if first is None else ("non-None", "None")
        raise ValueError(f"Incompatible return values of true_fn and false_fn in cond: {which[0]} against {which[1]}")
    return pack_sequence_as(map_structure(lambda v: v, first), results)


def _check_alike(first, second) -> None:
    try:
        assert_same_structure(first, second, check_types=False)
    except ValueError as error:
        raise ValueError(f"Incompatible return values of true_fn and false_fn in cond: {error}") from None


def _in_parent(var, helper):
    """A new variable like `var` in the parent block."""
    program = helper.main_program
    parent = program.block(program.current_block().parent_idx)
    return parent.create_var(dtype=var.dtype, shape=var.shape, type=var.type)


def case(pred_fn_pairs, default=None, name=None):
    """Run the function of the first pair whose predicate holds; without one, `default` or the last function.

    Args:
        pred_fn_pairs (list|tuple): pairs of bool Variable and callable.
        default (callable, optional): runs when no predicate holds.

    Raises:
        TypeError: for pairs or functions of other types.
    """
    check_type(pred_fn_pairs, "pred_fn_pairs", (list, tuple), "case")
    for pair in pred_fn_pairs:
        if not isinstance(pair, tuple):
            raise TypeError(f"The elements' type of 'pred_fn_pairs' in case must be tuple, but received: {type(pair)}.")
        if len(pair) != 2:
            raise TypeError(f"The tuple's size of 'pred_fn_pairs' in case must be 2, but received: {len(pair)}-tuple.")
        pred, function = pair
        if not isinstance(pred, Variable):
            raise TypeError(
                f"The pred's type of 'pred_fn_pairs' in case must be boolean Variable, but received: {type(pred)}."
            )
        if not callable(function):
            raise TypeError(f"case: the function paired with {pred.name} must be callable")
    pairs = list(pred_fn_pairs)
    if default is None:
        if not pairs:
            raise TypeError("case needs a pair at least, or a default")
        default = pairs.pop()[1]
    elif not callable(default):
        raise TypeError("case: default must be callable")
    chosen = default
    for pred, function in reversed(pairs):
        chosen = partial(cond, pred=pred, true_fn=function, false_fn=chosen)
    return chosen()


def switch_case(branch_index, branch_fns, default=None, name=None):
    """Run the function of `branch_fns` with the number `branch_index`; without one, `default` or the function of the
    highest number.

    Args:
        branch_index (Variable): of shape [1], int32, int64 or uint8.
        branch_fns (dict|list|tuple): number to callable, pairs of these, or callables numbered from 0.
        default (callable, optional): runs for other numbers.

    Raises:
        TypeError: for other types. ValueError: for a duplicate number.
    """
    check_variable_and_dtype(branch_index, "branch_index", ["uint8", "int32", "int64"], "switch_case")
    check_type(branch_fns, "branch_fns", (list, tuple, dict), "switch_case")
    branches = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if branches and all(callable(f) for f in branches):
        branches = list(enumerate(branches))
    seen = set()
    for pair in branches:
        if not isinstance(pair, tuple):
            raise TypeError(
                f"The elements' type of 'branch_fns' in switch_case must be tuple, but received: {type(pair)}."
            )
        if len(pair) != 2:
            raise TypeError(
                f"The tuple's size of 'branch_fns' in switch_case must be 2, but received: {len(pair)}-tuple."
            )
        key, function = pair
        if not isinstance(key, int):
            raise TypeError(f"The key's type of 'branch_fns' in switch_case must be int, but received: {type(key)}.")
        if key in seen:
            raise ValueError(f"branch_fns: key '{key}' is given twice")
        seen.add(key)
        if not callable(function):
            raise TypeError(f"The type of function for key {key} must be callable, but received: {type(function)}.")
    branches.sort(key=lambda pair: pair[0])
    if default is None:
        if not branches:
            raise TypeError("switch_case needs a branch at least, or a default")
        default = branches.pop()[1]
    elif not callable(default):
        raise TypeError("The default in Op(switch_case) must be callable.")
    pairs = []
    for key, function in branches:
        number = _ops.fill_constant(shape=[1], value=float(key), str_value=str(key), dtype=int(branch_index.dtype))
        pairs.append((_ops.equal(branch_index, number), function))
    return case(pairs, default) if pairs else default()


class Switch:
    """A sequence of cases, of which the first that holds runs; the blocks assign to existing Variables.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> step = fluid.layers.fill_constant([1], "float32", 1.0)
        >>> rate = fluid.layers.fill_constant([1], "float32", 0.1)
        >>> with fluid.layers.Switch() as switch:
        ...     with switch.case(step > 100.0):
        ...         _ = fluid.layers.assign(step, rate)
        ...     with switch.default():
        ...         _ = fluid.layers.assign(step * 2.0, rate)
    """

    def __init__(self, name=None) -> None:
        self.helper = LayerHelper("switch", name=name)
        self.inside_scope = False
        self._none_before = None  # no earlier case held

    def case(self, condition) -> BlockGuard:
        """The guard of a block that runs when `condition` holds and no earlier case held."""
        if not self.inside_scope:
            raise ValueError("case should be called inside with")
        check_variable_and_dtype(condition, "condition", ["bool"], "the member function case of fluid.layers.Switch")
        before, no = self._none_before, _ops.logical_not(condition)
        self._none_before = no if before is None else _ops.logical_and(before, no)
        return ConditionalBlock([condition if before is None else _ops.logical_and(before, condition)], True).block()

    def default(self) -> BlockGuard:
        """The guard of a block that runs when no case holds."""
        if self._none_before is None:
            raise ValueError("case: pred_fn_pairs has no entry")
        return ConditionalBlock([self._none_before], True).block()

    def __enter__(self) -> Switch:
        self.inside_scope = True
        return self

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        self.inside_scope = False
        return exc_type is None
