"""append_backward and gradients: they append the gradient operators of a static Program."""

from __future__ import annotations

import collections

from paddle._basics.checks import check_type
from paddle._basics.mode import static_only
from paddle._basics.names import OP_DEVICE, OP_ROLE, OP_ROLE_VAR, OpRole

from .backward_ops import _append_backward_ops_, _append_backward_vars_, _create_op_desc_, _rename_grad_
from .backward_path import (
    _append_grad_suffix_,
    _as_list,
    _find_no_grad_vars,
    _find_op_path_,
    _get_no_grad_set_name,
    _get_stop_gradients_,
    _strip_grad_suffix_,
)
from .recompute import _append_backward_ops_with_checkpoints_, seed_dropouts
from .variable import Variable
from .versions import Versions

__all__ = ["append_backward", "gradients"]


def _find_loss_op_(loss) -> None:
    """Set `loss.op` to the operator that computes `loss`."""
    for op in reversed(loss.block.ops):
        if op.output_arg_names == [loss.name]:
            loss.op = op
            return
    if loss.op is None:
        raise ValueError(f"no operator of the program computes the loss {loss.name}")


def _create_loss_op_desc_(loss):
    attrs = {
        "shape": [1],
        "value": 1.0,
        "dtype": loss.dtype,
        "force_cpu": False,
        OP_ROLE: int(OpRole.Backward) | int(OpRole.Loss),
        OP_DEVICE: loss.op.attr(OP_DEVICE) if loss.op.has_attr(OP_DEVICE) else "",
    }
    return _create_op_desc_("fill_constant", {}, {"Out": [_append_grad_suffix_(loss.name)]}, attrs)


def _block_and_ancestors(program, idx: int) -> list[int]:
    out = []
    while idx >= 0:
        out.append(idx)
        idx = program.block(idx).parent_idx
    return out


def _parameter_names(program, parameter_list) -> list[str]:
    if parameter_list is None:
        return [p.name for p in program.global_block().all_parameters() if p.trainable]
    where = "fluid.backward.append_backward"
    check_type(parameter_list, "parameter_list", (list, tuple, set), where)
    for i, param in enumerate(parameter_list):
        check_type(param, f"parameter_list[{i}]", (Variable, str), where)
    return [p if isinstance(p, str) else p.name for p in parameter_list]


@static_only
def append_backward(loss, parameter_list=None, no_grad_set=None, callbacks=None, checkpoints=None):
    """Append the operators that compute the gradients of `loss` to its program.

    Args:
        loss (Variable): of shape [1].
        parameter_list (list|tuple|set, optional): Variables or names; all trainable parameters when None.
        no_grad_set (set|list|tuple, optional): Variables or names that the gradient does not pass.
        callbacks (list, optional): each is called as ``callback(block=..., context=...)`` after each operator.
        checkpoints (list, optional): Variables or names that are kept for backward; the operators between them run a
            second time, which takes less memory and more time. Results do not change.

    Returns:
        list of (parameter, gradient): the gradient is None where the loss's block does not have it.

    Raises:
        TypeError: for arguments of other types.
        NotImplementedError: for checkpoints with control flow in between.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 13], "float32")
        >>> w = paddle.static.create_parameter([13, 1], "float32")
        >>> loss = paddle.mean(paddle.matmul(x, w))
        >>> [(p.name, g.name) for p, g in paddle.static.append_backward(loss)] # doctest: +SKIP
    """
    check_type(loss, "loss", Variable, "paddle.static.append_backward")
    if callbacks is not None:
        check_type(callbacks, "callbacks", (list, tuple), "paddle.static.append_backward")
    if checkpoints is not None:
        check_type(checkpoints, "checkpoints", (list, tuple), "paddle.static.append_backward")
        for i, point in enumerate(checkpoints):
            check_type(point, f"checkpoints[{i}]", (Variable, str), "paddle.static.append_backward")
    if loss.op is None:
        _find_loss_op_(loss)
    loss.op._set_attr(OP_ROLE, int(OpRole.Forward) | int(OpRole.Loss))

    program = loss.block.program
    current = program.current_block_idx
    inside = current != 0  # the loss is computed and differentiated within control flow
    if not inside:
        program._appending_grad_times += 1
    no_grad_dict = _get_stop_gradients_(program)
    no_grad_dict[0].update(map(_append_grad_suffix_, _get_no_grad_set_name(no_grad_set)))

    if inside:
        target = program._create_block(parent_idx=program.block(current).parent_idx)
        target._set_forward_block_idx(current)
    else:
        target = program.global_block()
    levels = _block_and_ancestors(program, current)
    forward_ops = program.block(current).desc.op_size()
    grad_to_var: dict = {}
    target.desc.append_op().copy_from(_create_loss_op_desc_(loss))

    for idx in levels:
        block = program.block(idx)
        stopped = {_strip_grad_suffix_(n) for n in no_grad_dict[idx]}
        paths: dict = {}
        path = _find_op_path_(block, [loss], [], stopped, paths)
        stopped |= _find_no_grad_vars(block, path, [loss], stopped)
        no_grad_dict[idx].update(map(_append_grad_suffix_, stopped))
        # a second pass appends only the gradients that depend on this loss
        start = {_append_grad_suffix_(loss.name)} if not inside and program._appending_grad_times > 1 else None
        if checkpoints and not inside:
            path = seed_dropouts(block, path)
            forward_ops = block.desc.op_size() - 1  # the start of the loss's gradient follows them
        versions = Versions(block, path)
        seeds, roots = [], set()
        if loss.name in versions.many and idx == current:
            # the loss is the last version of its variable
            roots.add(_append_grad_suffix_(loss.name))
            last = versions.gradient(loss.name, versions.last(loss.name))
            if last != _append_grad_suffix_(loss.name):
                seeds = [_create_op_desc_("assign", {"X": [_append_grad_suffix_(loss.name)]}, {"Out": [last]}, {})]
        known = {"seeds": seeds, "roots": roots, "versions": versions}
        if checkpoints and not inside:
            forward_ops += _append_backward_ops_with_checkpoints_(
                block, path, no_grad_dict, grad_to_var, checkpoints, callbacks, **known
            )
            continue
        forward_ops += _append_backward_ops_(
            block, path, target, no_grad_dict, grad_to_var, callbacks, start, paths, **known
        )

    info: dict = {}
    first = 0 if inside else forward_ops
    # the operator that starts the loss's gradient belongs to this pass
    _rename_grad_(target, first, grad_to_var, {})
    _append_backward_vars_(target, first, grad_to_var, info)
    program.current_block_idx = current
    program._sync_with_cpp()

    params_and_grads = []
    for name in _parameter_names(program, parameter_list):
        if name not in info:
            continue
        grad_name, block = info[name]
        if not block.has_var(grad_name):
            raise ValueError(f"block {block.idx} has no variable {grad_name} for a gradient")
        grad = block.var(grad_name) if inside or loss.block.has_var(grad_name) else None
        params_and_grads.append((program.global_block().var(name), grad))

    ops = target.ops if inside else program.global_block().ops
    made_by = {}
    for op in ops:
        for name in op.output_arg_names:
            made_by[name] = op
    for param, grad in params_and_grads:
        if grad is None:
            continue
        grad.op = made_by.get(grad.name)
        if grad.op is None:
            raise ValueError(f"no operator computes the gradient {grad.name}")
        names = [param.name, grad.name]
        if grad.op.has_attr(OP_ROLE_VAR):
            names.extend(grad.op.attr(OP_ROLE_VAR))
        grad.op._set_attr(OP_ROLE_VAR, names)
    return params_and_grads


def _start_gradient(target, grad, name: str) -> list:
    """OpDescs that set the gradient `name` of `target` to `grad`, or to ones of its shape at run time."""
    if grad is not None:
        return [_create_op_desc_("assign", {"X": [grad.name]}, {"Out": [name]}, {})]
    shape = target.name + "_shape"
    attrs = {"shape": list(target.shape), "value": 1.0, "dtype": target.dtype}
    return [
        _create_op_desc_("shape", {"Input": [target.name]}, {"Out": [shape]}, {}),
        _create_op_desc_("fill_constant", {"ShapeTensor": [shape]}, {"Out": [name]}, attrs),
    ]


def calc_gradient(targets, inputs, target_gradients=None, no_grad_set=None):
    """The gradients of the sum of `targets` with respect to `inputs`.

    Args:
        targets, inputs (Variable|list): of one program; targets of one block.
        target_gradients (Variable|list, optional): what the gradients of the targets start from; ones when None.
        no_grad_set (set, optional): Variables or names that the gradient does not pass.

    Returns:
        One Variable, or a list when there are several inputs; None for an input that the targets do not depend on.

    Raises:
        ValueError: when the numbers or shapes do not match, or the programs differ.
    """
    targets, inputs = _as_list(targets), _as_list(inputs)
    given = _as_list(target_gradients) or [None] * len(targets)
    if len(targets) != len(given):
        raise ValueError("gradients: target_gradients must have one entry for each of targets")
    block = targets[0].block
    program = block.program
    program._appending_grad_times += 1
    no_grad_dict = _get_stop_gradients_(program)
    no_grad_dict[0].update(map(_append_grad_suffix_, _get_no_grad_set_name(no_grad_set)))

    forward_ops = block.desc.op_size()
    for target, grad in zip(targets, given, strict=False):
        if grad is None:
            continue
        if target.block.idx != block.idx or target.block.program is not program:
            raise ValueError("gradients: the targets must be of one block")
        if target.shape != grad.shape:
            raise ValueError(f"gradients: {target.name} and its gradient {grad.name} differ in shape")
    for var in inputs:
        if var.block.program is not program:
            raise ValueError("gradients: inputs and targets must be of one Program")

    stopped = {_strip_grad_suffix_(n) for n in no_grad_dict[0]}
    paths: dict = {}
    path = _find_op_path_(block, targets, inputs, stopped, paths)
    stopped |= _find_no_grad_vars(block, path, targets, stopped)
    no_grad_dict[0].update(map(_append_grad_suffix_, stopped))

    # The gradient of a target that operators of the path read, or that is an input, is the sum of the given gradient
    # and that of the path. Otherwise the gradient operator of the target reads the given gradient.
    shared = collections.Counter(target.name for target in targets)
    shared.update(name for op in path for name in set(op.desc.input_arg_names()))
    wanted = {var.name for var in inputs}
    versions = Versions(block, path, targets={target.name for target in targets} - wanted)
    seeds: list = []
    started: set[str] = set()
    handed: dict[str, str] = {}
    grad_to_var: dict = {}
    info: dict = {}
    for target, grad in zip(targets, given, strict=False):
        name = versions.gradient(target.name, versions.last(target.name))
        started.add(name)
        if target.name in wanted and name == _append_grad_suffix_(target.name):
            grad_to_var[name] = target.name
        alone = shared[target.name] == 1 and target.name not in versions.many
        if grad is not None and alone and target.name not in wanted:
            handed[name] = grad.name
        else:
            seeds += _start_gradient(target, grad, name)
    forward_ops += _append_backward_ops_(
        block,
        path,
        block,
        no_grad_dict,
        grad_to_var,
        input_grad_names_set=None if program._appending_grad_times == 1 else set(started),
        op_path_dict=paths,
        seeds=seeds,
        roots=started,
        versions=versions,
    )
    _rename_grad_(block, forward_ops, grad_to_var, handed)
    _append_backward_vars_(block, forward_ops, grad_to_var, info)
    program._sync_with_cpp()

    grads = []
    for var in inputs:
        name, where = info.get(var.name, (None, None))
        grads.append(None if name is None else where.var(name))
    return grads[0] if len(grads) == 1 else grads


@static_only
def gradients(targets, inputs, target_gradients=None, no_grad_set=None) -> list:
    """As :func:`calc_gradient`, always a list.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 2], "float32")
        >>> x.stop_gradient = False
        >>> paddle.static.gradients([x * x], x)[0].shape
        (-1, 2)
    """
    for name, value, kinds in (
        ("targets", targets, (Variable, list, tuple)),
        ("inputs", inputs, (Variable, list, tuple)),
        ("target_gradients", target_gradients, (Variable, list, tuple, type(None))),
    ):
        check_type(value, name, kinds, "paddle.static.gradients")
    return _as_list(calc_gradient(targets, inputs, target_gradients, no_grad_set))
