"""Which LoDTensorArrays have versions: those of which an element may be written twice, or that a loop passes from step
to step and that operators outside of the loop read.

The elements of other arrays are written once. Their gradients need no versions, and have the operators of 2.0.2.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any, NamedTuple

from paddle._basics.dtypes import VarType

__all__: list[str] = []


class _Use(NamedTuple):
    """A use of a variable: position in the Program, the loops around it (outermost first), the operator."""

    at: int
    loops: tuple[int, ...]
    op: Any


def _walk(program: Any, block: Any, loops: tuple[int, ...]) -> Iterator[tuple[Any, tuple[int, ...]]]:
    for op in block.ops:
        if op.has_attr("sub_block"):
            inside = op._block_attr_id("sub_block")
            below = loops if op.type == "conditional_block" else (*loops, inside)
            yield from _walk(program, program.block(inside), below)
        else:
            yield op, loops


class _Uses:
    def __init__(self, program: Any) -> None:
        self.reads: dict[str, list[_Use]] = collections.defaultdict(list)
        self.writes: dict[str, list[_Use]] = collections.defaultdict(list)
        for at, (op, loops) in enumerate(_walk(program, program.global_block(), ())):
            use = _Use(at, loops, op)
            for name in dict.fromkeys(op.desc.input_arg_names() if op.type != "lod_array_length" else ()):
                self.reads[name].append(use)
            for name in dict.fromkeys(op.desc.output_arg_names()):
                self.writes[name].append(use)

    def counter(self, name: str) -> tuple[float, list[_Use]] | None:
        """(first value, increments) of a variable that a fill_constant starts and that only `increment` changes."""
        steps = [use for use in self.writes[name] if use.op.type == "increment"]
        others = [use for use in self.writes[name] if use.op.type != "increment"]
        if len(others) != 1 or others[0].op.type != "fill_constant" or others[0].loops:
            return None
        if any(use.op.attr("step") <= 0 for use in steps):
            return None
        return float(others[0].op.attr("value")), steps

    def index(self, use: _Use) -> float | None:
        """The index of a write outside of all loops, if increments outside of all loops alone have changed it."""
        counter = None if use.loops else self.counter(use.op.desc.input("I")[0])
        if counter is None:
            return None
        start, steps = counter
        before = [step for step in steps if step.at < use.at]
        return None if any(step.loops for step in before) else start + sum(step.op.attr("step") for step in before)

    def is_written_once(self, array: str) -> bool:
        """Whether it is certain that no element of the array is written twice."""
        writes = self.writes[array]
        if any(use.op.type != "write_to_array" for use in writes):
            return len(writes) == 1 and not writes[0].loops
        fixed = [(use, self.index(use)) for use in writes]
        constants = [value for _, value in fixed if value is not None]
        if len(set(constants)) < len(constants):
            return False
        counted = [use for use, value in fixed if value is None]
        if not counted:
            return True
        names = {use.op.desc.input("I")[0] for use in counted}
        counter = self.counter(names.pop()) if len(names) == 1 else None
        if counter is None:
            return False
        start, steps = counter
        lowest = start + sum(use.op.attr("step") for use in steps if use.at < counted[0].at and not use.loops)
        for use in counted:
            if use.loops and not any(step.loops == use.loops for step in steps):
                return False
        if counted[0].loops and any(s.loops == counted[0].loops and s.at < counted[0].at for s in steps):
            lowest += 1
        for first, second in zip(counted, counted[1:], strict=False):
            if not any(first.at < step.at < second.at for step in steps):
                return False
        return not constants or max(constants) < lowest

    def is_read_after_its_loop(self, array: str) -> bool:
        """Whether a loop reads and writes the array, and an operator outside of that loop reads it."""
        read = [use.loops for use in self.reads[array]]
        for use in self.writes[array]:
            for depth in range(1, len(use.loops) + 1):
                inside = [loops[:depth] == use.loops[:depth] for loops in read]
                if any(inside) and not all(inside):
                    return True
        return False


def versioned_arrays(program: Any) -> frozenset[str]:
    """The names of the arrays of `program` whose gradients need versions."""
    arrays = {v.name for block in program.blocks for v in block.vars.values() if v.type == VarType.LOD_TENSOR_ARRAY}
    if not arrays:
        return frozenset()
    uses = _Uses(program)
    written = (name for name in arrays if uses.writes[name])
    return frozenset(n for n in written if not uses.is_written_once(n) or uses.is_read_after_its_loop(n))
