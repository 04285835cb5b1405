"""Replication of a Program over several places of one process: a copy of the model for each, summed gradients, one
update.

As in Paddle's multi-device graph, every place runs the forward and backward operators on its part of the batch; a
gradient is summed over the places at the operators whose `op_role_var` names it, and the gradient of the loss starts
from one over the number of places. Unlike in Paddle, the copies are operators of one Program, whose plan runs
independent operators in parallel, and parameters exist once: the update, and all operators of the roles Optimize,
LRSched, RPC and Dist, run once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.dtypes import VarType
from paddle._basics.names import EMPTY_VAR_NAME, GRAD_VAR_SUFFIX, OP_ROLE, OP_ROLE_VAR, OpRole, strip_grad_suffix
from paddle._basics.place import CPUPlace

from .trainers import BATCH_NORM, Trainers, append, append_decoded

__all__: list[str] = []

_ONCE = OpRole.Optimize | OpRole.LRSched | OpRole.RPC | OpRole.Dist
#: the operator that combines the places' values, by `reduce_type` of the operator allreduce
_COMBINE = ("elementwise_add", "elementwise_mul", "elementwise_max", "elementwise_min")
#: name of GradientMergeOptimizer's variable that is True in the steps that apply the sums
DUE = "grad_merge_cond_name"


def at_place(name: str, place: int) -> str:
    """The name of the variable `name` at a place; the first place has the names of the Program.

    The name of a renamed variable's gradient ends in @GRAD, which loops and branches rely on.
    """
    if not place:
        return name
    base, suffix, rest = name.partition(GRAD_VAR_SUFFIX)
    return f"{base}@PLACE_{place}{suffix}{rest}"


def declare(block, var, name: str) -> None:
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


def _batch_output(op) -> str:
    """The output of a batch norm, or its gradient, that has the batch dimension."""
    return "Y" if "Y" in op.output_names() else "X@GRAD"


class Replicas:
    """The Program that runs `source` on `count` places.

    Args:
        source (ProgramDesc): the Program to replicate.
        count (int): the number of places.
        fed (tuple of str): the fed variables, of which each place has its own.
        loss_name (str|None): the loss, whose gradient is scaled; None without training.
        scale (float|None): the start of that gradient; None when the user sets it.
        trainers (Trainers, optional): the processes over which gradients are summed in addition.
        sync (bool): whether batch norms use the samples of all places and trainers.
        one_state (bool): whether persistable variables that places change exist once.
    """

    def __init__(
        self,
        source,
        count: int,
        fed: tuple,
        loss_name: str | None,
        scale: float | None,
        trainers: Trainers | None = None,
        sync: bool = False,
        one_state: bool = False,
    ) -> None:
        self.count = count
        self._trainers, self._sync = trainers, sync
        self._source = source
        self.desc = core.ProgramDesc(source)
        self._from, self._into = source.block(0), self.desc.block(0)
        self._loss_grad = loss_name + GRAD_VAR_SUFFIX if loss_name else None
        self._scale = scale
        #: variables of which each place has its own
        self._own = set(fed)
        #: outputs of batch norms over the samples of all places, which exist once
        self._joint: set[str] = set()
        #: summed gradients: from then on all places use the first place's
        self._summed: set[str] = set()
        ops = [self._from.op(i) for i in range(self._from.op_size())]
        #: gradients that operators of the Program exchange
        self._exchanged = {name for op in ops if op.type() == "allreduce" for name in op.input("X")}
        if count > 1 and any(op.type() == "conditional_block_grad" and self._updates(op) for op in ops):
            raise NotImplementedError(
                "a Program whose update is in a branch cannot run on several places: each place runs the branch, but "
                "there is one update"
            )
        #: gradient -> the operator that compresses it
        self.compressed = {op.output("Grad_out")[0]: op for op in ops if op.type() == "dgc"}
        self._find_own(ops)
        if one_state:
            self._own -= {n for n in self._own - set(fed) if self._is_persistable(n)}
        #: persistable variables that places change, such as running averages
        self.states = [n for n in sorted(self._own - set(fed)) if self._is_persistable(n)]
        self._into._remove_op(0, len(ops))
        for op in ops:
            self._add(op)
        for place in range(1, count):
            for name in fed:
                self._declared(name, place, frozenset())
        self.desc.flush()

    def _updates(self, op) -> bool:
        """Whether the sub-block of an operator contains an optimizer's update."""
        block = self._source.block(op._block_attr_id("sub_block"))
        return any(_role(block.op(i)) & OpRole.Optimize for i in range(block.op_size()))

    def _is_persistable(self, name: str) -> bool:
        var = self._from.find_var(name)
        return var is not None and var.persistable()

    def _find_own(self, ops: list) -> None:
        every = [op for op in ops if not _role(op) & _ONCE]
        once = {name for op in ops if _role(op) & _ONCE for name in op.output_arg_names()}
        written = {name for op in every for name in op.output_arg_names()}
        read = {name for op in every for name in op.input_arg_names()}
        unwritten = {n for n in read - written - once if not self._is_persistable(n)}
        if self._sync and self.count > 1:
            for op in (op for op in every if self._joins(op)):
                cut = _batch_output(op)
                self._joint |= {n for slot in op.output_names() if slot != cut for n in op.output(slot)}
        self._own |= (written | unwritten) - {EMPTY_VAR_NAME} - self._joint

    def name(self, name: str, place: int, inner: frozenset = frozenset()) -> str:
        """The name of a variable at a place; `inner` are the variables that sub-blocks around the operator declare."""
        if name in inner:
            # only gradients of renamed variables: other gradients are in separate scopes
            base = strip_grad_suffix(name)
            renamed = base != name and base not in inner and base in self._own
        else:
            renamed = name in self._own and name not in self._summed
        return at_place(name, place) if renamed else name

    def _add(self, op) -> None:
        if _role(op) & _ONCE:
            self._copy(op, self._into, 0)
            if op.type() == "dgc_momentum" and self.count > 1:
                self._copy_velocity(op)
            return
        # the gradient of a scaled loss has another name than that of the loss
        if self._loss_grad is not None and _role(op) == OpRole.Backward | OpRole.Loss and op.type() == "fill_constant":
            if self._scale is None:
                return
            for place in range(self.count):
                self._copy(op, self._into, place)._set_attr("value", self._scale)
            return
        if self._joins(op):
            self._batch_norm(op)
        elif op.type() == "allreduce" and self.count > 1:
            self._all_reduce(op)
        else:
            for place in range(1 if self._is_shared(op) else self.count):
                self._copy(op, self._into, place)
        if self._loss_grad is None or not op.has_attr(OP_ROLE_VAR) or not _role(op) & OpRole.Backward:
            return
        for grad in op.attr(OP_ROLE_VAR)[1::2]:
            if grad in (self._own | self._joint) - self._summed - self._exchanged:
                self._sum(grad, op.attr(DUE) if op.has_attr(DUE) else None)

    def _joins(self, op) -> bool:
        """Whether an operator is a batch norm (or its gradient) over all samples."""
        by_averages = any(op.has_attr(name) and op.attr(name) for name in ("use_global_stats", "is_test"))
        return self._sync and op.type() in BATCH_NORM and not by_averages

    def _is_shared(self, op) -> bool:
        """Whether an operator works on shared variables, such as a sum of gradients over processes."""
        made = op.output_arg_names()
        return bool(made) and all(self.name(n, 1) == n for n in (*made, *op.input_arg_names()))

    def _sum(self, grad: str, due: str | None) -> None:
        """Appends the sum of a gradient over places and trainers to the first place's; of merged gradients, where `due`
        holds.
        """
        if self.count > 1 and grad not in self._joint:
            append(self._into, "sum", {"X": [at_place(grad, p) for p in range(self.count)]}, {"Out": [grad]})
        if grad in self.compressed:
            self._exchange_compressed(grad)
        elif self._trainers is not None:
            self._trainers.append_sum(self._exchange_block(grad, due), grad)
        self._summed.add(grad)

    def _exchange_compressed(self, grad: str) -> None:
        """Appends the sum of the elements that the operators `dgc` of places and trainers selected."""
        op = self.compressed[grad]
        encoded = [self.name(op.output("EncodeGrad")[0], place) for place in range(self.count)]
        if self._trainers is not None or self.count > 1:
            ring = -1 if self._trainers is None else self._trainers.next_ring()
            append_decoded(self._into, op, grad, encoded, ring)

    def _copy_velocity(self, op) -> None:
        """Copies the updated velocity to all places until compression begins."""
        velocity = op.output("VelocityOut")[0]
        begin, early = f"{velocity}@BEGIN", f"{velocity}@EARLY"
        for name, dtype in ((begin, VarType.FP32), (early, VarType.BOOL)):
            var = self._into.var(name)
            var.set_type(VarType.LOD_TENSOR)
            var.set_dtype(dtype)
            var.set_shape([1])
        value = {"shape": [1], "dtype": int(VarType.FP32), "value": op.attr("rampup_begin_step")}
        append(self._into, "fill_constant", {}, {"Out": [begin]}, **value)
        append(self._into, "less_than", {"X": op.input("current_step"), "Y": [begin]}, {"Out": [early]})
        places = [at_place(velocity, place) for place in range(1, self.count)]
        inner = self._branch(early, velocity, places, f"{velocity}@SCOPES")
        for place in places:
            append(inner, "assign", {"X": [velocity]}, {"Out": [place]})

    def _all_reduce(self, op) -> None:
        """The operator `allreduce`: over the places first, then unchanged over the trainers."""
        (x,), (out,) = op.input("X"), op.output("Out")
        total = x
        for place in range(1, self.count):
            terms = {"X": [total], "Y": [self._declared(x, place, frozenset())]}
            append(self._into, _COMBINE[op.attr("reduce_type")], terms, {"Out": [out]}, axis=-1)
            total = out
        if self._trainers is not None:
            self._copy(op, self._into, 0).set_input("X", [out])
        self._summed.add(out)

    def _exchange_block(self, grad: str, due: str | None) -> Any:
        """The block of the operators that exchange a gradient: a branch when not every run exchanges it."""
        if due is None:
            return self._into
        return self._branch(due, grad, [grad], f"{grad}@EXCHANGED")

    def _branch(self, cond: str, read: str, made: list[str], scopes_name: str) -> Any:
        """The block of a branch that runs when `cond` holds."""
        inner = self.desc.append_block(self._into)
        scopes = self._into.var(scopes_name)
        scopes.set_type(VarType.STEP_SCOPES)
        slots = {"Cond": [cond], "Input": [read]}, {"Out": made, "Scope": [scopes_name]}
        append(self._into, "conditional_block", *slots, is_scalar_condition=True).set_block_attr("sub_block", inner)
        return inner

    def _batch_norm(self, op) -> None:
        """A batch norm or its gradient over the samples of all places: their batches are concatenated, the output is
        split.
        """
        if self.count == 1:
            self._copy(op, self._into, 0).set_type(BATCH_NORM[op.type()])
            return
        role, cut = {OP_ROLE: _role(op)}, _batch_output(op)
        (x,), (made,) = op.input("X"), op.output(cut)
        whole = {}
        for name in (x, *(op.input("Y@GRAD") if cut == "X@GRAD" else ())):
            whole[name] = self._whole(name)
            append(self._into, "concat", {"X": self._at_places(name)}, {"Out": [whole[name]]}, axis=0, **role)
        result = self._whole(made)
        joined = self._copy(op, self._into, 0)
        if self._trainers is not None:
            joined.set_type(BATCH_NORM[op.type()])
        for slot in ("X", "Y@GRAD"):
            if slot in op.input_names():
                joined.set_input(slot, [whole[n] for n in op.input(slot)])
        joined.set_output(cut, [result])
        # the gradient of the concatenation splits the output by the batches' sizes
        ins = {"X": self._at_places(x), "Out@GRAD": [result]}
        append(self._into, "concat_grad", ins, {"X@GRAD": self._at_places(made)}, axis=0, **role)

    def _at_places(self, name: str) -> list[str]:
        return [self._declared(name, place, frozenset()) for place in range(self.count)]

    def _whole(self, name: str) -> str:
        """A variable for the concatenated batches of all places."""
        made = name + "@ALL_PLACES"
        var = self._from.find_var(name)
        if var is not None and not self._into.has_var(made):
            declare(self._into, var, made)
        return made

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
            # its other attributes may name variables of the block
            for other in (n for n, kind in kinds.items() if kind == core.AttrType.STRINGS and n != OP_ROLE_VAR):
                copy._set_attr(other, [self.name(v, place, names) for v in op.attr(other)])
        return copy

    def _block(self, number: int, place: int, parent, inner: frozenset) -> tuple[Any, frozenset]:
        """A copy of a block for a place, and the variables that it and the blocks around it declare."""
        source = self._source.block(number)
        inner |= {var.name() for var in source.all_vars()}
        copy = self.desc.append_block(parent)
        for var in source.all_vars():
            declare(copy, var, self.name(var.name(), place, inner))
        for i in range(source.op_size()):
            self._copy(source.op(i), copy, place, inner)
        return copy, inner

    def _declared(self, name: str, place: int, inner: frozenset) -> str:
        """The name of a variable at a place; it is declared in block 0 like the Program's variable."""
        new = self.name(name, place, inner)
        if new != name and name not in inner and not self._into.has_var(new):
            var = self._from.find_var(name)
            if var is not None:
                declare(self._into, var, new)
        return new


def split(value, count: int) -> list:
    """`count` consecutive parts of an array or LoDTensor, as arrays or LoDTensors; fewer when there are fewer
    samples.
    """
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
    """The concatenation of the places' fetched values: the inverse of `split`.

    Raises:
        ValueError: when shapes differ beyond the first axis.
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
            f"fetch: the places give shapes {[list(a.shape) for a in arrays]}, which cannot be "
            "concatenated: use return_merged=False"
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
