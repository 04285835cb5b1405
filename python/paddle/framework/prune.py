"""Cutting Programs down: to what some targets need, or to the forward pass."""
from __future__ import annotations

from collections.abc import Iterable

from paddle import _core as core

from .dtypes import VarType
from .names import OP_ROLE, OpRole

__all__: list[str] = []

_NOT_FORWARD = int(OpRole.Backward) | int(OpRole.Optimize) | int(OpRole.LRSched)
_OPTIMIZE = int(OpRole.Optimize)


def _role(op) -> int:
    return int(op.attr(OP_ROLE)) if op.has_attr(OP_ROLE) else int(OpRole.NotSpecified)


def _block_attrs(op) -> list[tuple[str, bool]]:
    """(attribute, whether a list) for each attribute of `op` that names blocks."""
    out = []
    for name in op.attr_names():
        kind = op.attr_type(name)
        if kind == core.AttrType.BLOCK:
            out.append((name, False))
        elif kind == core.AttrType.BLOCKS:
            out.append((name, True))
    return out


def _sub_blocks(op) -> list[int]:
    out = []
    for name, many in _block_attrs(op):
        out.extend(op._blocks_attr_ids(name) if many else [op._block_attr_id(name)])
    return out


def copy_var(source, block) -> None:
    """A VarDesc like `source` in the BlockDesc `block`."""
    var = block.var(source.name())
    kind = source.type()
    var.set_type(kind)
    if kind in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY):
        var.set_shape(source.shape())
        var.set_dtype(source.dtype())
        if kind != VarType.SELECTED_ROWS:
            var.set_lod_level(source.lod_level())
    var.set_persistable(source.persistable())
    if source.need_check_feed():
        var.set_need_check_feed(True)


class _Copy:
    """Copies chosen operators of a ProgramDesc into a new one, block by block."""

    def __init__(self, source) -> None:
        self.source = source
        self.result = core.ProgramDesc()
        self.result._set_version(source._version())
        self.origin: dict[int, int] = {}  # new block number -> old one
        self.number: dict[int, int] = {}  # and the reverse

    def block(self, old: int, parent: int):
        """The new block for `old`."""
        block = self.result.block(0) if parent < 0 else self.result.append_block(self.result.block(parent))
        self.origin[block.id] = old
        self.number[old] = block.id
        return block

    def fill(self, block, ops: Iterable, also: Iterable[str] = ()) -> None:
        """Copy the operators, and the variables they name (and those in `also`)."""
        names = set(also)
        for op in ops:
            block.append_op().copy_from(op)
            names.update(op.input_arg_names())
            names.update(op.output_arg_names())
        old = self.source.block(self.origin[block.id])
        for var in old.all_vars():
            if var.name() in names:
                copy_var(var, block)

    def finish(self):
        """Point block attributes and forward blocks at the new numbers; returns (desc, new number -> old)."""
        for new in range(self.result.num_blocks()):
            block = self.result.block(new)
            forward = self.source.block(self.origin[new]).get_forward_block_idx()
            if forward in self.number:
                block._set_forward_block_idx(self.number[forward])
            for i in range(block.op_size()):
                op = block.op(i)
                for name, many in _block_attrs(op):
                    if many:
                        ids = [self.number[k] for k in op._blocks_attr_ids(name)]
                        op.remove_attr(name)
                        op.set_blocks_attr(name, [self.result.block(k) for k in ids])
                    else:
                        number = self.number[op._block_attr_id(name)]
                        op.remove_attr(name)
                        op.set_block_attr(name, self.result.block(number))
        return self.result, self.origin


def prune(desc, feeds: set[str], targets: Iterable[tuple[int, int]]):
    """What the operators `targets`, (block, position) each, need when `feeds` are given.

    Operators of the optimizer stay only as targets. Returns (ProgramDesc, new block number -> old).
    """
    marked: dict[int, set[int]] = {}
    for block, position in targets:
        marked.setdefault(block, set()).add(position)
    copy = _Copy(desc)

    def walk(old: int, parent: int, needed: set[str]) -> None:
        block = desc.block(old)
        ops = [block.op(i) for i in range(block.op_size())]
        kept = []
        for i in range(len(ops) - 1, -1, -1):
            op = ops[i]
            outputs = op.output_arg_names()
            wanted = i in marked.get(old, ()) or (
                not needed.isdisjoint(outputs) and not _role(op) & _OPTIMIZE
            )
            if wanted:
                needed.update(n for n in op.input_arg_names() if n not in feeds)
            # in a sub-block, what writes a fed variable stays: loops hand state over so
            elif parent < 0 or feeds.isdisjoint(outputs):
                continue
            kept.append(op)
        kept.reverse()
        new = copy.block(old, parent)
        copy.fill(new, kept)
        for op in kept:
            for sub in _sub_blocks(op):
                inside = {n for n in (*op.input_arg_names(), *op.output_arg_names()) if n not in feeds}
                if op.type() == "recurrent":
                    for name in ("states", "ex_states"):
                        inside.update(op.attr(name))
                walk(sub, new.id, inside)

    walk(0, -1, set())
    return copy.finish()


def prune_backward(desc):
    """The forward pass: without operators of backward, optimizer and learning-rate schedule, and the blocks of these.

    A program without a gradient of a loss is returned whole.
    Returns (ProgramDesc, new block number -> old; empty when nothing was cut).
    """
    blocks = [desc.block(i) for i in range(desc.num_blocks())]
    ops = [[b.op(i) for i in range(b.op_size())] for b in blocks]
    loss_grad = int(OpRole.Backward) | int(OpRole.Loss)
    if not any(op.has_attr(OP_ROLE) and _role(op) == loss_grad for row in ops for op in row):
        return core.ProgramDesc(desc), {}
    copy = _Copy(desc)
    for old, (block, row) in enumerate(zip(blocks, ops)):
        # operators without a role (NotSpecified) are nobody's backward pass
        kept = [op for op in row if not (op.has_attr(OP_ROLE) and _role(op) & _NOT_FORWARD)]
        # a block with nothing left belonged to the backward pass
        if kept or old == 0:
            copy.fill(copy.block(old, -1 if block.parent < 0 else copy.number[block.parent]), kept)
    return copy.finish()
