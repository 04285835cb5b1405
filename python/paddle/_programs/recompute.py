"""append_backward with checkpoints: the operators between checkpoints run again instead of their outputs being kept."""

from __future__ import annotations

import bisect
from typing import Any

from paddle._basics import unique_name
from paddle._basics.names import EMPTY_VAR_NAME, OP_DEVICE, OP_ROLE, OpRole

from .backward_ops import _create_op_desc_, _place_gradients
from .versions import Versions

__all__: list[str] = []

#: operators with side effects or random results: they do not run again, their outputs are kept
_ONCE = frozenset(
    "uniform_random gaussian_random truncated_gaussian_random randint randperm bernoulli multinomial "
    "sampling_id seed random_crop shuffle_batch nce sample_logits uniform_random_batch_size_like "
    "gaussian_random_batch_size_like py_func print read feed fetch save load".split()
)


def _runs_once(op: Any) -> bool:
    """Whether the operator must not run again: a dropout may when its seed is an input."""
    return op.type in _ONCE or (op.type == "dropout" and not op.desc.input("Seed"))


def seed_dropouts(block: Any, ops: list) -> list:
    """`ops` of `block` with an operator `seed` inserted before every dropout, so that the dropout can run again.

    As in Paddle the seed is drawn when the operator runs, so that later random numbers are the same as Paddle's.
    """
    out = []
    for op in ops:
        if op.type == "dropout" and not op.desc.input("Seed"):
            name = unique_name.generate_with_ignorable_key(unique_name.generate("seed") + ".tmp")
            seed = block.create_var(name=name, dtype="int32", persistable=False, stop_gradient=False)
            number = int(op.attr("seed")) if op.attr("fix_seed") else 0
            out.append(block._insert_op(op.idx, type="seed", outputs={"Out": [seed]}, attrs={"seed": number}))
            op.desc.set_input("Seed", [name])
            op._remove_attr("fix_seed")
            op._remove_attr("seed")
        out.append(op)
    return out


class _Path:
    """The variables of a path that are kept, and those that are recomputed."""

    def __init__(self, block: Any, ops: list, names: set[str], versions: Versions) -> None:
        self.ops, self.versions = ops, versions
        writers: dict[str, list[int]] = {}
        for i, op in enumerate(ops):
            if op.has_attr("sub_block"):
                raise NotImplementedError(
                    f"checkpoints: operator {op.type} has a sub-block, and control flow cannot be recomputed"
                )
            for name in op.desc.output_arg_names():
                writers.setdefault(name, []).append(i)
        #: ends of the segments; outputs after the last one are kept
        self.ends = sorted({writers[name][-1] + 1 for name in names if name in writers})
        self.held = {*names, *versions.many}
        for name, places in writers.items():
            var = block.desc.find_var_recursive(name) if block.desc.has_var_recursive(name) else None
            if len(places) > 1 or (var is not None and var.persistable()):
                self.held.add(name)  # a variable that is written in place has lost its previous value
        made = {name: self.segment(places[0]) for name, places in writers.items()}
        for i, op in enumerate(ops):
            here = self.segment(i)
            for name in op.desc.input_arg_names():
                if made.get(name) != here:
                    self.held.add(name)  # an input of the path, or of another segment
            if _runs_once(op) or set(op.desc.input_arg_names()) & set(op.desc.output_arg_names()):
                self.held.update(op.desc.output_arg_names())
        #: variables that recomputation writes
        self.again = set(made) - self.held - {EMPTY_VAR_NAME}

    def segment(self, i: int) -> int:
        return bisect.bisect_right(self.ends, i)

    def forward(self, start: int, end: int, suffix: str) -> list:
        """The recomputed operators of a segment, with outputs under other names.

        As in Paddle the Program contains all of them; the plan leaves out those that no gradient needs.
        """
        out = []
        for op in reversed(self.ops[start:end]):
            if _runs_once(op) or not self.again & set(op.desc.output_arg_names()):
                continue
            desc = _create_op_desc_(op.type, {}, {}, {})
            desc.copy_from(op.desc)
            desc._set_attr(OP_ROLE, int(OpRole.Backward))
            for name in set(op.desc.output_arg_names()) - {EMPTY_VAR_NAME}:
                desc._rename_output(name, name + suffix)  # also running statistics, which must not be updated twice
            for name in set(op.desc.input_arg_names()):
                if name in self.again:
                    desc._rename_input(name, name + suffix)
                elif name in self.versions.many:
                    desc._rename_input(name, self.versions.value(name, self.versions.before(op, name)))
            out.append(desc)
        return out[::-1]


def _append_backward_ops_with_checkpoints_(
    block: Any,
    ops: list,
    no_grad_dict: dict,
    grad_to_var: dict,
    checkpoints: list,
    callbacks: Any = None,
    *,
    seeds: Any = (),
    roots: Any = (),
    versions: Versions,
) -> int:
    """As `_append_backward_ops_` for the global block, recomputing the segments that end in `checkpoints`. Variables
    that several operators write are kept.

    Returns:
        The number of operators that were inserted into `block`: copies of values that later operators replace.

    Raises:
        NotImplementedError: for operators with sub-blocks, and in a second pass over one program.
    """
    if block.program._appending_grad_times > 1:
        raise NotImplementedError("checkpoints: a program that has gradients already cannot be recomputed")
    path = _Path(block, ops, {c if isinstance(c, str) else c.name for c in checkpoints}, versions)
    no_grad = no_grad_dict[block.idx]

    def gradients(start: int, end: int) -> list:
        out = []
        for op in reversed(ops[start:end]):
            new, to_var = versions.grad_descs(op, no_grad, [])
            for desc in new:
                if op.desc.has_attr(OP_DEVICE):
                    desc._set_attr(OP_DEVICE, op.desc.attr(OP_DEVICE))
            out.extend(new)
            grad_to_var.update(to_var)
        return out

    last = path.ends[-1] if path.ends else 0
    descs = [*seeds, *gradients(last, len(ops))]
    for k in reversed(range(len(path.ends))):
        start, end = path.ends[k - 1] if k else 0, path.ends[k]
        suffix = f".subprog_{len(path.ends) - 1 - k}"
        grads = gradients(start, end)
        for desc in grads:
            for name in set(desc.input_arg_names()) & path.again:
                desc._rename_input(name, name + suffix)
        descs.extend(path.forward(start, end, suffix))
        descs.extend(grads)
    roots = {*roots, *(name for seed in seeds for name in seed.input_arg_names())}
    no_grad.update(versions.stopped(no_grad))
    descs = versions.without_cut(descs, _create_op_desc_, roots, no_grad)
    _place_gradients(descs, ops, block, block, no_grad_dict, grad_to_var, callbacks, roots)
    return versions.insert_copies()
