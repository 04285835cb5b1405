"""A section of a pipeline: runs the operators of one Program over the micro-batches of a batch, in the order of 2.0.2.

All micro-batches are in one Program: forward of each, backward of each, and one update. Outputs of operators have a
name for each micro-batch; parameters, sums of gradients and the learning rate exist once.
"""

from __future__ import annotations

from typing import Any

import paddle._core as core
from paddle._basics.names import EMPTY_VAR_NAME, OP_ROLE, OpRole

from .feed import FeedSlot, _to_name_str, as_numpy
from .py_reader import READER_OPS, source_of
from .replicas import declare, merge, split

__all__: list[str] = []

_FORWARD = (int(OpRole.Forward), int(OpRole.Forward) | int(OpRole.Loss))
_BACKWARD = (int(OpRole.Backward), int(OpRole.Backward) | int(OpRole.Loss))


def micro_batch_name(name: str, part: int) -> str:
    """The name of a variable in a micro-batch."""
    return f"{name}@MICRO_{part}" if part else name


class Section:
    """The Program of this process's section, for all micro-batches.

    Args:
        program (Program): the section's. count (int): the number of micro-batches.
    """

    def __init__(self, program: Any, count: int) -> None:
        self.program, self.count = program, count
        source = program.desc
        self.desc = core.ProgramDesc(source)
        self._from, self._into = source.block(0), self.desc.block(0)
        every = [self._from.op(i) for i in range(self._from.op_size())]
        ops = [op for op in every if op.type() not in READER_OPS]
        #: (reader, variables of a batch) of each `read` operator
        self.reads = [(op.input("Reader")[0], op.output("Out")) for op in every if op.type() == "read"]
        role = [int(op.attr(OP_ROLE)) for op in ops]
        before = [op for op, r in zip(ops, role, strict=True) if r == OpRole.LRSched]
        forward = [op for op, r in zip(ops, role, strict=True) if r in _FORWARD]
        backward = [op for op, r in zip(ops, role, strict=True) if r in _BACKWARD]
        update = [op for op, r in zip(ops, role, strict=True) if r & OpRole.Optimize]
        once = {name for op in before for name in op.output_arg_names()}
        self.written = {name for op in (*forward, *backward) for name in op.output_arg_names()}
        self._shared = once | {v.name() for v in self._from.all_vars() if v.persistable()} | {EMPTY_VAR_NAME}
        self._into._remove_op(0, len(every))
        for op in before:
            self._copy(op, 0)
        for stretch in (forward, backward):
            for part in range(count):
                for op in stretch:
                    self._copy(op, part)
        for op in update:
            self._copy(op, 0)
        self.desc.flush()

    def name(self, name: str, part: int) -> str:
        """The name of a variable of the section in a micro-batch."""
        return name if name in self._shared else micro_batch_name(name, part)

    def _copy(self, op: Any, part: int) -> None:
        copy = self._into.append_op()
        copy.copy_from(op)
        if not part:
            return
        if any(op.attr_type(a) in (core.AttrType.BLOCK, core.AttrType.BLOCKS) for a in op.attr_names()):
            raise NotImplementedError(
                f"a pipeline with several micro-batches cannot run control flow: operator {op.type()}"
            )
        for slot in op.input_names():
            copy.set_input(slot, [self._declared(n, part) for n in op.input(slot)])
        for slot in op.output_names():
            copy.set_output(slot, [self._declared(n, part) for n in op.output(slot)])

    def _declared(self, name: str, part: int) -> str:
        new = self.name(name, part)
        if new != name and not self._into.has_var(new):
            var = self._from.find_var(name)
            if var is not None:
                declare(self._into, var, new)
        return new

    def run(
        self, executor: Any, feed: dict[str, Any], fetch_list: list[Any], scope: Any, place: Any, numpy: bool
    ) -> list:
        """Runs a batch; fetched values of the micro-batches are concatenated, None for variables of other sections."""
        block = self.program.global_block()
        names, tensors = [], []
        for name, value in feed.items():
            if name not in block.vars or name in self.written:
                continue  # of another section, or received from the first one
            parts = split(FeedSlot(block.var(name), 1).tensor(value, place), self.count)
            if len(parts) != self.count:
                raise ValueError(f"feed: the samples of '{name}' do not make {self.count} micro-batches")
            names += [micro_batch_name(name, i) for i in range(self.count)]
            for i in range(self.count):
                self._declared(name, i)
            tensors += parts
        for reader, outs in self.reads:
            # each micro-batch is a batch of the reader
            source, slots = source_of(self.program, reader), [FeedSlot(block.var(n), 1) for n in outs]
            for i in range(self.count):
                names += [micro_batch_name(n, i) for n in outs]
                tensors += [slot.tensor(field, place) for slot, field in zip(slots, source.next(), strict=True)]
                for n in outs:
                    self._declared(n, i)
        wanted = [_to_name_str(v) for v in fetch_list]
        here = [n for n in wanted if n in block.vars]
        fetched = list(dict.fromkeys(self.name(n, i) for n in here for i in range(self.count)))
        found = dict(zip(fetched, executor.run(self.desc, scope, names, tensors, fetched, None), strict=True))
        results: list[Any] = []
        for n in wanted:
            parts = [found[p] for p in dict.fromkeys(self.name(n, i) for i in range(self.count))] if n in here else []
            one = merge(parts) if len(parts) > 1 else parts[0] if parts else None
            results.append(as_numpy(one) if numpy and one is not None else one)
        return results
