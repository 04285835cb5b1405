"""The operators between inputs and targets that need gradients, and the variables that stop gradients."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import paddle._core as core
from paddle._basics.dtypes import VarType
from paddle._basics.names import GRAD_VAR_SUFFIX, strip_grad_suffix
from paddle._basics.op_proto import has_non_empty_grad_op_maker, is_gradient

from .variable import Variable, isinstance_of

__all__: list[str] = []

#: element types without gradients
_EXACT = (VarType.BOOL, VarType.INT16, VarType.INT32, VarType.INT64, VarType.UINT8, VarType.INT8)
#: kinds of variables that may have gradients
_WITH_ELEMENTS = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY)
#: kinds of variables that an operator replaces as a whole
_REPLACED = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS)
#: operators whose sub-block's path is found from the operator's outputs
_WALKED = ("conditional_block", "while")


def _text(name) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _strip_grad_suffix_(name) -> str:
    return strip_grad_suffix(_text(name))


def _append_grad_suffix_(name) -> str:
    return _text(name) + GRAD_VAR_SUFFIX


def _is_grad_var_(name: str) -> bool:
    return GRAD_VAR_SUFFIX in name


def _all_in_set_(cands, s) -> bool:
    """Whether all of `cands`, and at least one, are in `s`."""
    return len(cands) > 0 and all(c in s for c in cands)


def _some_in_set_(cands, s) -> bool:
    """Whether any of `cands` is in `s`."""
    return any(_text(c) in s for c in cands)


def _as_list(x) -> list:
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _get_stop_gradients_(program) -> dict[int, set[str]]:
    """For each block, the gradients of its variables with stop_gradient, and of conditions of outer blocks."""
    names: dict[int, set[str]] = {}
    conditions: dict[int, set[str]] = {}
    for block in program.blocks:
        stopped = [v for v in block.vars.values() if v.stop_gradient]
        outer = conditions.get(block.parent_idx, set())
        names[block.idx] = {_append_grad_suffix_(v.name) for v in stopped} | outer
        # A block that writes a condition of an outer block has no gradient for it.
        conditions[block.idx] = outer | {
            _append_grad_suffix_(v.name) for v in stopped if v.type == VarType.LOD_TENSOR and v.dtype == VarType.BOOL
        }
    return names


def _get_no_grad_set_name(no_grad_set) -> set[str]:
    """The names in a no_grad_set of Variables and names; TypeError for anything else."""
    if no_grad_set is None:
        return set()
    if not isinstance(no_grad_set, (set, list, tuple)):
        raise TypeError(f"append_backward: no_grad_set must be a set, list or tuple, got {type(no_grad_set)}")
    names = set()
    for item in no_grad_set:
        if isinstance(item, str):
            names.add(item)
        elif isinstance_of(item, Variable):
            names.add(item.name)
        else:
            raise TypeError(f"append_backward: no_grad_set must hold Variables or names, got {type(item)}")
    return names


def _is_ancestor_block(ancestor, block) -> bool:
    parent = block.parent_idx
    while parent != -1:
        if parent == ancestor.idx:
            return True
        parent = block.program.block(parent).parent_idx
    return False


def _get_output_names(cur_block, targets) -> set[str]:
    """The variables of `cur_block` that `targets` (perhaps of a block inside it) depend on directly."""
    block = targets[0].block if targets else cur_block
    names = {t.name for t in targets}
    if block.idx == cur_block.idx or _is_ancestor_block(block, cur_block):
        return names
    program = cur_block.program
    while block.idx != cur_block.idx:
        assert block.parent_idx != -1
        parent = program.block(block.parent_idx)
        outside = set()
        for op in reversed(block.ops):
            if not _some_in_set_(op.desc.output_arg_names(), names):
                continue
            for name in op.desc.input_arg_names():
                names.add(name)
                if block.desc.find_var(name) is None and parent.desc.find_var(name) is not None:
                    outside.add(name)
        block, names = parent, outside
    return names


def _find_no_grad_vars(block, op_path, targets, no_grad_set) -> set[str]:
    """Outputs on the path that no later operator reads: they get no gradient."""
    wanted = _get_output_names(block, targets)
    dead = set()
    for op in reversed(op_path):
        inputs = _read_through(op)
        if not op.has_attr("sub_block"):
            for name in op.desc.output_arg_names():
                if name in wanted or name in inputs:
                    continue
                var = block._find_var_recursive(name)
                if var is None or not var.stop_gradient:
                    dead.add(name)
        wanted.update(n for n in inputs if n not in no_grad_set)
    return dead


def _get_sub_block_path(sub_block, op, no_grad_set, op_path_dict, sub_block_target_names=None) -> list:
    """The path of gradients in the sub-block of `op`."""
    assert op.has_attr("sub_block") and sub_block.idx == op._block_attr_id("sub_block")
    assert sub_block_target_names is None or isinstance(sub_block_target_names, set)
    if op.type not in _WALKED:
        for inner in sub_block.ops:
            if inner.has_attr("sub_block"):
                number = inner._block_attr_id("sub_block")
                below = sub_block.program.block(number)
                op_path_dict[number] = _get_sub_block_path(below, inner, no_grad_set, op_path_dict)
        return sub_block.ops
    names = op.output_arg_names if sub_block_target_names is None else sub_block_target_names
    targets = [sub_block._var_recursive(n) for n in names]
    for name in names:
        for inner in sub_block.ops:
            if name in inner.output_arg_names:
                targets.extend(sub_block._var_recursive(n) for n in inner.input_arg_names)
    return _find_op_path_(sub_block, targets, [], no_grad_set, op_path_dict, op.type == "while")


def _takes_gradient(block, name) -> bool:
    """Whether the variable may have a gradient: it has floating-point elements and no stop_gradient."""
    var = block._find_var_recursive(name)
    return var is None or not (var.stop_gradient or var.type not in _WITH_ELEMENTS or var.dtype in _EXACT)


@functools.cache
def _read_slots() -> dict[str, set[str]]:
    """For each operator, the input slots whose elements it reads (not only shape and type)."""
    return {op["type"]: {s["name"] for s in op["inputs"] if not s["meta_only"]} for op in core.op_table()}


def _read_by(op) -> set[str]:
    slots = _read_slots().get(op.type, set())
    return {n for slot in op.desc.input_names() if slot in slots for n in op.desc.input(slot)}


def _refuse_lost_gradient(block, before: list, op, starts: set[str] | None, no_grad_set: set[str]) -> None:
    """Raise EnforceNotMet for a gradient operator on the path that has no gradient operator itself.

    The error is raised when the operator reads a variable that depends on `starts` (None: on any variable that takes a
    gradient): that part of the derivative would be missing. 2.0.2 leaves it out.
    """
    if not is_gradient(op.type):
        return
    made: set[str] = set()
    reached = set(starts or ())
    for earlier in before:
        read, outputs = _read_by(earlier), earlier.desc.output_arg_names()
        if starts is None:
            reached.update(n for n in read - made if n not in no_grad_set and _takes_gradient(block, n))
        made.update(outputs)
        if read & reached:
            reached.update(n for n in outputs if n not in no_grad_set and _takes_gradient(block, n))
    if _read_by(op) & reached:
        raise core.EnforceNotMet(
            f"(NotFound) operator {op.type} has no gradient operator: what it computes cannot be differentiated again"
        )


def _read_through(op) -> set[str]:
    """The variables that `op` reads. A block also reads what a block inside it writes, which may not run; upstream's
    Programs do not list these variables as inputs.
    """
    names = set(op.desc.input_arg_names())
    if op.type in _WALKED:
        inside = op.block.program.block(op._block_attr_id("sub_block"))
        replaced: set[str] = set()
        outside = set(op.desc.output_arg_names())
        for inner in inside.ops:
            names |= (_read_through(inner) - replaced) & outside
            replaced |= _replaced(inside, inner)
    return names


def _replaced(block, op) -> set[str]:
    """The variables whose previous values the operator replaces: none of a block, which may not run."""
    if op.has_attr("sub_block"):
        return set()
    names = op.desc.output_arg_names()
    return {n for n in names if (var := block._find_var_recursive(n)) is not None and var.type in _REPLACED}


def _find_op_path_(
    block, targets, inputs: Iterable, no_grad_set: set[str], op_path_dict: dict | None = None, is_while: bool = False
) -> list:
    """The operators of `block` between `inputs` (none: all) and `targets`, in order.

    `op_path_dict` receives the paths in sub-blocks; `no_grad_set` has further variables that stop gradients.
    """
    ops = block.ops
    reached = {v.name for v in inputs}
    starts = set(reached) if reached else None
    needed = _get_output_names(block, targets)
    if op_path_dict is None:
        op_path_dict = {}
    ever_needed: set[str] = set()
    relevant = [True] * len(ops)
    differentiable = has_non_empty_grad_op_maker

    if inputs:
        for i, op in enumerate(ops):
            read = op.desc.input_arg_names()
            if op.type in _WALKED:
                read = read + op.desc.output_arg_names()  # what the block may leave as it is
            if _some_in_set_(read, reached) and differentiable(op.type):
                reached.update(n for n in op.desc.output_arg_names() if n not in no_grad_set)
            else:
                relevant[i] = False

    for i in range(len(ops) - 1, -1, -1):
        op = ops[i]
        if op.has_attr("sub_block"):
            number = op._block_attr_id("sub_block")
            inside = block.program.block(number)
            names = needed & set(op.output_arg_names)
            op_path_dict[number] = _get_sub_block_path(inside, op, set(), op_path_dict, names)
        if _some_in_set_(op.desc.output_arg_names(), needed) and differentiable(op.type):
            ever_needed |= needed
            needed -= _replaced(block, op)
            needed.update(n for n in _read_through(op) if n not in no_grad_set)
        else:
            if _some_in_set_(op.desc.output_arg_names(), needed):
                _refuse_lost_gradient(block, ops[:i], op, starts, no_grad_set)
                ever_needed |= needed
                needed -= _replaced(block, op)
            relevant[i] = False

    # An iteration reads values that the previous one wrote later in the body: the search repeats until nothing changes.
    if is_while:
        needed = {n for n in needed | ever_needed if _takes_gradient(block, n)}
    changed = is_while
    while changed:
        changed = False
        for i in range(len(ops) - 1, -1, -1):
            if not relevant[i] and _some_in_set_(ops[i].desc.output_arg_names(), needed):
                relevant[i] = changed = True
                if differentiable(ops[i].type):
                    needed.update(
                        n for n in _read_through(ops[i]) if n not in no_grad_set and _takes_gradient(block, n)
                    )

    path = [op for op, keep in zip(ops, relevant, strict=False) if keep]
    if inputs:
        for op in path:
            for name in op.desc.input_arg_names():
                if name not in reached:
                    var = block._find_var_recursive(name)
                    if var is not None and var.stop_gradient:
                        no_grad_set.add(name)
    return path


def _find_loss_op_(loss) -> None:
    """Sets `loss.op` to the last operator of its block whose only output is `loss`.

    Raises:
        ValueError: if there is none.
    """
    ops = [op for op in loss.block.ops if op.output_arg_names == [loss.name]]
    if ops:
        loss.op = ops[-1]
    if loss.op is None:
        raise ValueError(f"no operator of the block computes '{loss.name}' alone")
