"""A Program over several places of one process: a copy of the model for each, gradients added up, one update.

As in Paddle's multi-device graph, every place runs the forward and backward operators on its share of the batch; a
gradient's shares are summed where the operators' `op_role_var` names it, and the gradient of the loss starts from one
over the number of places. Unlike there the copies are operators of one Program, whose plan runs independent ones at
the same time, and parameters exist once: the update, as all that is of the roles Optimize, LRSched, RPC and Dist, runs
once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.dtypes import VarType
from paddle._basics.names import EMPTY_VAR_NAME, GRAD_VAR_SUFFIX, OP_ROLE, OP_ROLE_VAR, OpRole, strip_grad_suffix
from paddle._basics.place import CPUPlace

__all__: list[str] = []

_ONCE = OpRole.Optimize | OpRole.LRSched | OpRole.RPC | OpRole.Dist


def at_place(name: str, place: int) -> str:
    """What the variable `name` is called at a place; the first has the names of the Program.

    The gradient of a renamed variable is called as gradients are, which loops and branches count on.
    """
    if not place:
        return name
    base, suffix, rest = name.partition(GRAD_VAR_SUFFIX)
    return f"{base}@PLACE_{place}{suffix}{rest}"


def _declare(block, var, name: str) -> None:
    """Declares `name` in the BlockDesc as `var` is declared elsewhere."""
    copy = block.var(name)
    copy.set_type(var.type())
    copy.set_persistable(var.persistable())
    if var.type() in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY):
        copy.set_dtype(var.dtype())
        copy.set_shape(var.shape())
        if var.type() != VarType.SELECTED_ROWS:
            copy.set_lod_level(var.lod_level())


def _role(op) -> int:
    return int(op.attr(OP_ROLE)) if op.has_attr(OP_ROLE) else 0


class Replicas:
    """The Program that does for `count` places what `source` does for one.

    Args:
        source (ProgramDesc): what to copy.
        count (int): places.
        fed (tuple of str): the variables that are fed: every place has its own.
        loss_name (str|None): whose gradient is scaled; None where nothing is trained.
        scale (float|None): what that gradient starts from; None where the user sets it.
    """

    def __init__(self, source, count: int, fed: tuple, loss_name: str | None, scale: float | None) -> None:
        self.count = count
        self._source = source
        self.desc = core.ProgramDesc(source)
        self._from, self._into = source.block(0), self.desc.block(0)
        self._loss_grad = loss_name + GRAD_VAR_SUFFIX if loss_name else None
        self._scale = scale
        #: variables of which every place has its own
        self._own = set(fed)
        #: gradients that have been summed: from there on all places mean the first one's
        self._summed: set[str] = set()
        ops = [self._from.op(i) for i in range(self._from.op_size())]
        self._find_own(ops)
        #: persistable variables that the places change, such as running averages
        self.states = [n for n in sorted(self._own - set(fed)) if self._is_persistable(n)]
        self._into._remove_op(0, len(ops))
        for op in ops:
            self._add(op)
        for place in range(1, count):
            for name in fed:
                self._declared(name, place, frozenset())
        self.desc.flush()

    def _is_persistable(self, name: str) -> bool:
        var = self._from.find_var(name)
        return var is not None and var.persistable()

    def _find_own(self, ops: list) -> None:
        every = [op for op in ops if not _role(op) & _ONCE]
        once = {name for op in ops if _role(op) & _ONCE for name in op.output_arg_names()}
        written = {name for op in every for name in op.output_arg_names()}
        read = {name for op in every for name in op.input_arg_names()}
        unwritten = {n for n in read - written - once if not self._is_persistable(n)}
        self._own |= (written | unwritten) - {EMPTY_VAR_NAME}

    def name(self, name: str, place: int, inner: frozenset = frozenset()) -> str:
        """What the variable is called at a place; `inner` are those that the blocks around the operator declare."""
        if name in inner:
            # Only the gradient of what is renamed: scopes keep the others apart.
            base = strip_grad_suffix(name)
            renamed = base != name and base not in inner and base in self._own
        else:
            renamed = name in self._own and name not in self._summed
        return at_place(name, place) if renamed else name

    def _add(self, op) -> None:
        if _role(op) & _ONCE:
            self._copy(op, self._into, 0)
            return
        if _role(op) == OpRole.Backward | OpRole.Loss and op.output_arg_names() == [self._loss_grad]:
            if self._scale is None:
                return
            for place in range(self.count):
                self._copy(op, self._into, place)._set_attr("value", self._scale)
            return
        for place in range(self.count):
            self._copy(op, self._into, place)
        if self._loss_grad is None or not op.has_attr(OP_ROLE_VAR) or not _role(op) & OpRole.Backward:
            return
        for grad in op.attr(OP_ROLE_VAR)[1::2]:
            if grad in self._own and grad not in self._summed:
                self._sum(grad)

    def _sum(self, grad: str) -> None:
        """Adds the places' gradients up into the first one's."""
        op = self._into.append_op()
        op.set_type("sum")
        op.set_input("X", [at_place(grad, place) for place in range(self.count)])
        op.set_output("Out", [grad])
        op._set_attr(OP_ROLE, int(OpRole.Backward))
        self._summed.add(grad)

    def _copy(self, op, into, place: int, inner: frozenset = frozenset()) -> Any:
        """A copy of `op` in the block `into`, for the variables of `place`."""
        copy = into.append_op()
        copy.copy_from(op)
        if not place:
            return copy
        for slot in op.input_names():
            copy.set_input(slot, [self._declared(n, place, inner) for n in op.input(slot)])
        for slot in op.output_names():
            copy.set_output(slot, [self._declared(n, place, inner) for n in op.output(slot)])
        kinds = {name: op.attr_type(name) for name in op.attr_names()}
        for name in [n for n, kind in kinds.items() if kind == core.AttrType.BLOCK]:
            block, names = self._block(op._block_attr_id(name), place, into, inner)
            copy.set_block_attr(name, block)
            # Its other attributes may name variables of the block.
            for other in (n for n, kind in kinds.items() if kind == core.AttrType.STRINGS and n != OP_ROLE_VAR):
                copy._set_attr(other, [self.name(v, place, names) for v in op.attr(other)])
        return copy

    def _block(self, number: int, place: int, parent, inner: frozenset) -> tuple[Any, frozenset]:
        """A copy of a block for a place, and what it and the blocks around it declare."""
        source = self._source.block(number)
        inner |= {var.name() for var in source.all_vars()}
        copy = self.desc.append_block(parent)
        for var in source.all_vars():
            _declare(copy, var, self.name(var.name(), place, inner))
        for i in range(source.op_size()):
            self._copy(source.op(i), copy, place, inner)
        return copy, inner

    def _declared(self, name: str, place: int, inner: frozenset) -> str:
        """The name at the place of a variable, which block 0 declares as it does the Program's own."""
        new = self.name(name, place, inner)
        if new != name and name not in inner and not self._into.has_var(new):
            var = self._from.find_var(name)
            if var is not None:
                _declare(self._into, var, new)
        return new


def split(value, count: int) -> list:
    """An array or LoDTensor as `count` LoDTensors or arrays of neighbouring samples; fewer where samples are few."""
    lod = value.lod() if isinstance(value, core.LoDTensor) else []
    array = np.asarray(value)
    samples = len(lod[0]) - 1 if lod else (array.shape[0] if array.ndim else 1)
    if samples == 0 or not array.ndim:
        return [value] * (count if samples == 0 else 1)
    width = -(-samples // count)
    parts = []
    for start in range(0, samples, width):
        begin, end = start, min(start + width, samples)
        levels = []
        for level in lod:
            levels.append([at - level[begin] for at in level[begin : end + 1]])
            begin, end = level[begin], level[end]
        part: Any = array[begin:end]
        if lod:
            part, rows = core.LoDTensor(), part
            part.set(rows, CPUPlace())
            part.set_lod(levels)
        parts.append(part)
    return parts


def merge(parts: list) -> Any:
    """What the places have fetched, one after the other: the reverse of `split`.

    Raises:
        ValueError: their shapes differ beyond the first axis.
    """
    if isinstance(parts[0], core.LoDTensorArray):
        merged = core.LoDTensorArray()
        for items in zip(*parts, strict=True):
            merged.append(merge(list(items)))
        return merged
    filled = [p for p in parts if p._is_initialized()]
    if not filled:
        return parts[0]
    arrays = [np.asarray(p) for p in filled]
    if any(a.shape[1:] != arrays[0].shape[1:] or a.ndim != arrays[0].ndim for a in arrays):
        raise ValueError(
            f"fetch: the places give shapes {[list(a.shape) for a in arrays]}, which can not be put one after the "
            "other; ask for return_merged=False"
        )
    whole = core.LoDTensor()
    whole.set(np.concatenate(arrays) if arrays[0].ndim else np.stack(arrays), CPUPlace())
    levels = [p.lod() for p in filled]
    if levels[0]:
        joined = []
        for level in zip(*levels, strict=True):
            offsets = [0]
            for part in level:
                offsets += [offsets[-1] + at for at in part[1:]]
            joined.append(offsets)
        whole.set_lod(joined)
    return whole
