"""Creation, summation and pruning of the gradient operators of a path."""

from __future__ import annotations

import collections
import copy
import functools

import paddle._core as core
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.names import EMPTY_VAR_NAME, GRAD_VAR_SUFFIX, OP_DEVICE, OP_ROLE, OpRole

from .backward_path import _all_in_set_, _is_grad_var_, _some_in_set_, _strip_grad_suffix_
from .outer_writes import refuse_outer_writes
from .versions import Versions, without_version

__all__: list[str] = []

_BACKWARD = int(OpRole.Backward)


def _create_op_desc_(op_type, inputs, outputs, attrs):
    """A new OpDesc, by default with the role Backward."""
    desc = core.OpDesc()
    desc.set_type(op_type)
    for slot, names in inputs.items():
        desc.set_input(slot, list(names))
    for slot, names in outputs.items():
        desc.set_output(slot, list(names))
    for name, value in {OP_ROLE: _BACKWARD, OP_DEVICE: "", **attrs}.items():
        desc._set_attr(name, value)
    return desc


def _rename_arg_(op_descs, old_name, new_name, begin_idx=None, end_idx=None) -> None:
    """Rename an argument in all slots of the OpDescs of a range."""
    for desc in op_descs[begin_idx or 0 : end_idx]:
        desc._rename_input(old_name, new_name)
        desc._rename_output(old_name, new_name)


def _addup_repetitive_outputs_(op_descs: list, block_idx: int) -> list:
    """Where several operators write one gradient, rename each contribution and insert a `sum` before the first
    reader.
    """
    names: dict[str, list[str]] = collections.defaultdict(list)  # gradient -> the names of its contributions
    first: dict[str, int] = {}  # gradient -> position of the first operator that writes it
    count: dict[str, int] = collections.defaultdict(int)
    sums: dict[int, list] = collections.defaultdict(list)  # position -> sums to insert before it

    def fresh(name: str) -> str:
        count[name] += 1
        return f"{name}@RENAME@block{block_idx}@{count[name] - 1}"

    def add_up(name: str, position: int, device: str = "") -> None:
        attrs = {"use_mkldnn": False, OP_DEVICE: device}
        sums[position].append(_create_op_desc_("sum", {"X": names[name]}, {"Out": [name]}, attrs))
        names[name] = [name]

    for i, desc in enumerate(op_descs):
        device = desc.attr(OP_DEVICE) if desc.has_attr(OP_DEVICE) else ""
        inputs = desc.input_arg_names()
        for name in inputs:
            if _is_grad_var_(name) and len(names[name]) > 1:
                add_up(name, i, device)
        slots = desc.output_names()
        for k, slot in enumerate(slots):
            args = desc.output(slot)
            for j, name in enumerate(args):
                if not _is_grad_var_(name) or name == EMPTY_VAR_NAME or name in inputs:
                    continue  # an operator that also reads the gradient updates it in place: no contribution
                if not names[name]:
                    names[name] = [name]
                    first[name] = i
                    continue
                if len(names[name]) == 1:
                    new = fresh(name)
                    names[name][0] = new
                    _rename_arg_(op_descs, name, new, first[name], i)
                    for row in sums.values():
                        _rename_arg_(row, name, new)
                    for other in slots[:k]:
                        earlier = desc.output(other)
                        if name in earlier:
                            desc.set_output(other, [new if a == name else a for a in earlier])
                    args = [new if a == name else a for a in args[:j]] + args[j:]
                new = fresh(name)
                args[j] = new
                desc.set_output(slot, args)
                names[name].append(new)
    for name in list(names):
        if len(names[name]) > 1:
            add_up(name, len(op_descs))

    out: list = []
    for i, desc in enumerate(op_descs):
        out.extend(sums.get(i, ()))
        out.append(desc)
    out.extend(sums.get(len(op_descs), ()))
    return out


def _clear_absent_gradients(desc) -> None:
    """Replace the gradients of absent outputs by the empty name."""
    nothing = EMPTY_VAR_NAME + GRAD_VAR_SUFFIX
    if nothing in desc.input_arg_names():
        for slot in desc.input_names():
            desc.set_input(slot, [EMPTY_VAR_NAME if n == nothing else n for n in desc.input(slot)])


@functools.cache
def _extra_slots() -> set[tuple[str, str]]:
    """(operator, input slot) where the slot is not in Paddle's declaration: an absent gradient stays absent."""
    return {(op["type"], s["name"]) for op in core.op_table() for s in op["inputs"] if s["extra"] and s["dispensable"]}


def _remove_no_grad_branch_(op_descs: list, no_grad_set: set[str], values: dict[int, set[str]] | None = None) -> list:
    """Drop operators whose outputs, or gradient inputs, are all in the no-grad set; other inputs of it become zeros.

    `values`: id of an OpDesc -> the operands of its forward operator, which are no gradients of this pass.
    """
    values = values or {}
    for desc in op_descs:
        for slot in desc.input_names():
            if (desc.type(), slot) in _extra_slots():
                desc.set_input(slot, [n for n in desc.input(slot) if n not in no_grad_set])
    kept = []
    for desc in op_descs:
        _clear_absent_gradients(desc)
        outputs = desc.output_arg_names()
        if not outputs or _all_in_set_(outputs, no_grad_set):
            continue
        own = values.get(id(desc), ())
        if _all_in_set_([n for n in desc.input_arg_names() if _is_grad_var_(n) and n not in own], no_grad_set):
            no_grad_set.update(outputs)
            continue
        kept.append(desc)
    out = []
    for desc in kept:
        own = values.get(id(desc), ())
        for name in desc.input_arg_names():
            if _is_grad_var_(name) and name in no_grad_set and name not in own:
                like = without_version(_strip_grad_suffix_(name))
                out.append(_create_op_desc_("fill_zeros_like", {"X": [like]}, {"Out": [name]}, {}))
        out.append(desc)
    return out


def _find_not_need_ops(grad_op_descs: list, forward_ops, known) -> set[int]:
    """Positions of operators that read only gradients which no operator writes, directly or through such operators.

    `known`: existing names, in addition to the operands of the forward operators.
    """
    known = set(known or ())
    for op in forward_ops:
        known.update(op.desc.input_arg_names())
        known.update(op.desc.output_arg_names())

    # each write starts a new version of a name; operators read the latest version
    latest: dict[str, int] = {}
    readers: list[list[int]] = []
    reads: list[list[int]] = []
    writes: list[list[int]] = []

    def version(name: str) -> int:
        readers.append([])
        latest[name] = len(readers) - 1
        return latest[name]

    given: set[str] = set()
    rootless = []
    for i, desc in enumerate(grad_op_descs):
        inputs = desc.input_arg_names()
        if not set(inputs) & (known | given):
            rootless.append(i)
        given.update(desc.output_arg_names())
        reads.append([latest[n] if n in latest else version(n) for n in inputs])
        for v in reads[-1]:
            readers[v].append(i)
        writes.append([version(n) for n in desc.output_arg_names()])

    useless: set[int] = set()
    for root in rootless:
        chain, waiting, ready = {root}, [root], set(reads[root])
        while waiting:
            i = waiting.pop(0)
            if not _all_in_set_(reads[i], ready):
                break
            ready.update(writes[i])
            after = [r for v in writes[i] for r in readers[v] if r not in chain]
            chain.update(after)
            waiting.extend(after)
        else:
            useless |= chain
    return set() if len(useless) == len(grad_op_descs) else useless


def _rename_grad_name_(name: str, grad_order: int) -> str:
    return "grad/" * grad_order + name


def _rename_higher_order(program, block, own, descs, to_var: dict, renamed: dict[str, str]) -> None:
    """Names for a later pass of append_backward: gradients that exist get new names.

    `own`: the forward operator's variables, which may be gradients of an earlier pass and keep their names.
    """
    for desc in descs:
        for name in desc.input_arg_names():
            if name in renamed and name not in own:
                desc._rename_input(name, renamed[name])
        for name in desc.output_arg_names():
            if not _is_grad_var_(name) or block.desc.find_var(name) is None:
                continue
            new = _rename_grad_name_(name, program._appending_grad_times)
            desc._rename_output(name, new)
            renamed[name] = new
            if name in to_var:
                to_var[new] = to_var.pop(name)


def _append_backward_ops_(
    block,
    ops,
    target_block,
    no_grad_dict,
    grad_to_var,
    callbacks=None,
    input_grad_names_set=None,
    op_path_dict=None,
    *,
    seeds=(),
    roots=(),
    versions=None,
) -> int:
    """Append the gradients of `ops` (of `block`, in reverse) to `target_block`; each sub-block gets a gradient block.

    `grad_to_var` receives gradient name -> forward name; each of `callbacks` is called after each operator. `seeds` are
    OpDescs that write the first gradients, `roots` the names of these, `versions` those of the block's variables.

    Returns:
        The number of operators that were inserted into `block`: copies of values that later operators replace.
    """
    if callbacks is not None:
        assert isinstance(callbacks, (list, tuple))
        for callback in callbacks:
            if not callable(callback):
                raise ValueError("append_backward: callbacks must be callable")
    program = block.program
    versions = versions or Versions(block, ops)
    no_grad = no_grad_dict[block.idx]
    descs: list = list(seeds)
    renamed: dict[str, str] = {}
    values: dict[int, set[str]] = {}
    roots = {*roots, *(name for seed in seeds for name in seed.input_arg_names())}
    if program._appending_grad_times > 1:
        _rename_higher_order(program, block, set(), descs, grad_to_var, renamed)
    if input_grad_names_set is not None:
        input_grad_names_set.update(name for seed in descs for name in seed.output_arg_names())
    for op in reversed(ops):
        sub_blocks = []
        if op.has_attr("sub_block"):
            if op.type == "recurrent":
                refuse_outer_writes(op)
            number = op._block_attr_id("sub_block")
            grad_block = program._create_block()
            grad_block._set_forward_block_idx(number)
            path = op_path_dict[number]
            inside = program.block(number)
            _append_backward_ops_(
                inside,
                path,
                grad_block,
                no_grad_dict,
                grad_to_var,
                callbacks,
                None,
                op_path_dict,
                versions=Versions(inside, path, versions, op),
            )
            program._rollback()
            sub_blocks.append(grad_block.desc)

        new, to_var = versions.grad_descs(op, no_grad, sub_blocks)
        to_var = dict(to_var)
        if op.desc.has_attr(OP_DEVICE):
            for desc in new:
                desc._set_attr(OP_DEVICE, op.desc.attr(OP_DEVICE))
        if program._appending_grad_times > 1:
            own = {*op.desc.input_arg_names(), *op.desc.output_arg_names()}
            _rename_higher_order(program, block, own, new, to_var, renamed)
            values.update((id(desc), own) for desc in new)

        if input_grad_names_set is None:
            descs.extend(new)
            grad_to_var.update(to_var)
            continue
        # a later pass: only the operators that depend on the gradients it starts from
        useful = False
        for desc in new:
            grads = [n for n in desc.input_arg_names() if _is_grad_var_(n)]
            if not grads and desc.type() == "fill_zeros_like":
                descs.append(desc)  # an operand of the next one
                continue
            if not grads:
                useful = True
                break
            if _some_in_set_(grads, input_grad_names_set):
                descs.append(desc)
                useful = True
                input_grad_names_set.update(desc.output_arg_names())
        if useful:
            grad_to_var.update(to_var)

    roots.update(input_grad_names_set or ())
    no_grad.update(versions.stopped(no_grad))
    descs = versions.without_cut(descs, _create_op_desc_, roots, no_grad)
    if versions.op is not None:
        descs = versions.with_arriving(descs, _create_op_desc_, no_grad)
        roots.update(versions.arriving(name) for name in versions.op.desc.output_arg_names())
    _place_gradients(descs, ops, block, target_block, no_grad_dict, grad_to_var, callbacks, roots, values)
    return versions.insert_copies()


def _place_gradients(descs, ops, block, target_block, no_grad_dict, grad_to_var, callbacks, roots, values=None) -> None:
    """Append the OpDescs of the gradients of `ops`: sums are inserted, unneeded operators are dropped."""
    descs = _addup_repetitive_outputs_(descs, block.idx)
    descs = _remove_no_grad_branch_(descs, no_grad_dict[block.idx], values)
    useless = _find_not_need_ops(descs, ops, roots)
    for i, desc in enumerate(descs):
        if i in useless:
            continue
        appended = target_block.desc.append_op()
        appended.copy_from(desc)
        appended._set_attr(OP_ROLE, _BACKWARD)
        grad_to_var["__current_op_desc__"] = appended
        for callback in callbacks or ():
            callback(block=target_block, context=grad_to_var)


def _contradict(inferred, last) -> bool:
    """Whether the shape that an operator infers for a gradient is that of another value of its variable: `last` is the
    shape after operators in place (``reshape(x, inplace=True)``).
    """
    if not inferred:
        return False
    known = [(a, b) for a, b in zip(inferred, last, strict=False) if a >= 0 and b >= 0]
    return len(inferred) != len(last) or any(a != b for a, b in known)


def _infer_var_data_type_shape_(name: str, block) -> None:
    """Give a gradient the type and shape of its variable."""
    grad = block.desc.find_var(name)
    forward = _strip_grad_suffix_(name)
    if not block.desc.has_var_recursive(forward):
        forward = without_version(forward)
    var = block.desc.find_var_recursive(forward) if block.desc.has_var_recursive(forward) else None
    if var is None:
        grad.set_dtype(VarType.FP32)
    else:
        grad.set_dtype(var.dtype())
        if not _contradict(grad.shape(), var.shape()):
            grad.set_shape(var.shape())


def _find_parent_op_(sub_block):
    """The OpDesc that owns `sub_block`; None for the global block."""
    if sub_block.idx == 0:
        return None
    for block in sub_block.program.blocks:
        for i in range(block.desc.op_size()):
            op = block.desc.op(i)
            if op.has_attr("sub_block") and op._block_attr_id("sub_block") == sub_block.idx:
                return op
    return None


#: gradient operators with a block -> the slots of the forward variables whose gradients the block computes
_BLOCK_INPUTS = {
    "conditional_block_grad": ("Input",),
    "while_grad": ("X",),
    "recurrent_grad": ("inputs", "parameters"),
}


def _local_gradients(op) -> set[str]:
    """Gradients that are local to the block of a gradient operator: the operator reads them in the block's scope,
    where outer blocks may have other variables of these names.
    """
    return {n + GRAD_VAR_SUFFIX for slot in _BLOCK_INPUTS.get(op.type(), ()) for n in op.input(slot)}


def _append_backward_vars_(block, start_op_idx: int, grad_to_var, grad_info_map, local=frozenset()) -> None:
    """Create the variables of the gradient operators from `start_op_idx` on, and infer their types and shapes.

    Operators none of whose gradient inputs exist are removed. `grad_info_map` receives forward name -> (gradient name,
    its block). Names in `local` get a variable of this block even if an outer block has the name.
    """
    parent = _find_parent_op_(block)
    # the loop-carried gradients of a while_grad exist before the body runs
    carried = set()
    if parent is not None:
        carried = set(parent.input_arg_names()) & set(parent.output_arg_names())
        if parent.has_attr("original_output_grad"):
            for name in parent.attr("original_output_grad"):
                carried.add(name)
                if not block.desc.has_var(name):
                    block.desc.var(name)
                    _infer_var_data_type_shape_(name, block)
    unneeded = []
    for i in range(start_op_idx, block.desc.op_size()):
        op = block.desc.op(i)
        if op.has_attr("sub_block"):
            inner = block.program.block(op._block_attr_id("sub_block"))
            _append_backward_vars_(inner, 0, grad_to_var, grad_info_map, _local_gradients(op))
        grads = [n for n in op.input_arg_names() if _is_grad_var_(n)]
        outputs = [n for n in op.output_arg_names() if n != EMPTY_VAR_NAME]
        exists = any(block.desc.has_var_recursive(n) or n in carried for n in grads)
        if not outputs or (grads and not exists and op.type() != "rnn_memory_helper_grad"):
            unneeded.append(i)
            continue
        new = []
        for name in outputs:
            if block.desc.has_var(name) if name in local else block.desc.has_var_recursive(name):
                continue
            block.desc.var(name)
            new.append(name)
            if name in grad_to_var and name not in local:
                grad_info_map[grad_to_var[name]] = (name, block)
        op.infer_var_type(block.desc)
        op.infer_shape(block.desc)
        for name in new:
            _infer_var_data_type_shape_(name, block)
    for i in reversed(unneeded):
        block.desc._remove_op(i, i + 1)


def _rename_grad_(block, start_op_idx: int, grad_to_var, target_grad_map) -> None:
    """From `start_op_idx` on, rename gradients that existed before; those of targets are the given gradients."""
    renamed = copy.copy(target_grad_map)
    for i in range(start_op_idx, block.desc.op_size()):
        op = block.desc.op(i)
        for name in op.input_arg_names():
            if name in renamed:
                op._rename_input(name, renamed[name])
        for name in op.output_arg_names():
            if _is_grad_var_(name) and block.desc.find_var(name) is not None:
                new = unique_name.generate(name)
                op._rename_output(name, new)
                renamed[name] = new
    for name, new in renamed.items():
        if name in grad_to_var:
            grad_to_var[new] = grad_to_var.pop(name)
