"""Versions of the variables of a block, for the gradients of Programs that overwrite variables.

Every operator that writes a variable starts a new version of it; version 0 is the value before the block. The gradient
of a version is accumulated from the readers of that version only, and ends at the operator that wrote it. Variables
with one version keep their names; only the others are renamed.

Gradients: the earliest version that the path reads has the name `v@GRAD` (of a value that the block starts with, always
version 0; of a target of `gradients`, the last), the others `v@VERSION@<block>@<version>@GRAD`.

An array has versions if `versioned_arrays` has its name: writing an element starts a version.

Values: the last version is the variable itself. Earlier ones that a gradient operator reads are copied by an `assign`
to `v@VERSION@<block>@<version>` before they are lost. In the body of a `while`, whose step scopes keep what the step
started with, the variable itself is version 0 and later versions are copied.
"""

from __future__ import annotations

import bisect
import collections
import functools
from collections.abc import Iterable
from typing import Any

import paddle._core as core
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.names import EMPTY_VAR_NAME, GRAD_VAR_SUFFIX, OP_DEVICE, OP_ROLE, VERSION_MARK, OpRole

from .backward_path import _takes_gradient
from .overwritten_arrays import versioned_arrays

__all__: list[str] = []

_DENSE = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS)
#: operators whose block may write variables of outer blocks -> the slot of what their block reads
PARTIAL_WRITERS = {"while": "X", "conditional_block": "Input"}


def without_version(name: str) -> str:
    """The variable of a name of a version; other names as they are."""
    return name.split(VERSION_MARK, 1)[0]


@functools.cache
def _shape_slots() -> dict[str, frozenset[str]]:
    """For each operator, the input slots of which only shape and data type are read."""
    rows = core.op_table()
    return {op["type"]: frozenset(s["name"] for s in op["inputs"] if s["meta_only"]) for op in rows}


class Versions:
    """The versions of the variables of `block`.

    Args:
        block (Block): whose gradients are appended.
        path (list of Operator): the operators of the block that the gradient passes.
        outer (Versions, optional): of the block that holds `op`.
        op (Operator, optional): the operator that runs `block`.
        targets (set of str): variables whose last version has the plain name of its gradient.
    """

    def __init__(
        self,
        block: Any,
        path: list,
        outer: Versions | None = None,
        op: Any = None,
        targets: Iterable[str] = (),
    ) -> None:
        self.block, self.outer, self.op = block, outer, op
        self.targets = frozenset(targets)
        self.kind = op.type if op is not None else ""
        self.arrays: frozenset[str] = versioned_arrays(block.program) if outer is None else outer.arrays
        self.at = {id(each): i for i, each in enumerate(block.ops)}
        self._is_local: dict[str, bool] = {}
        self._kept: dict[str, bool] = {}
        self.writes: dict[str, list[int]] = {}
        #: (variable, version) -> the last operator that writes it: the second branch of a cond
        self.ends: dict[tuple[str, int], int] = {}
        self.first_read: dict[str, int] = {}
        owner_of: dict[str, Any] = {}
        for i, each in enumerate(block.ops):
            for name in each.desc.input_arg_names():
                self.first_read.setdefault(name, i)
            for name in dict.fromkeys(each.desc.output_arg_names()):
                if name != EMPTY_VAR_NAME and self._is_dense(name):
                    # the result of a cond: one of its branches runs, and both write one version
                    result = len(self.writes.get(name, ())) == 1 and not self.has_entry(name)
                    if not (result and self._is_other_branch(owner_of.get(name), each)):
                        self.writes.setdefault(name, []).append(i)
                    self.ends[name, len(self.writes[name])] = i
                    owner_of[name] = each
        self.many = {n for n, where in self.writes.items() if len(where) + self.has_entry(n) > 1}
        used: dict[str, set[int]] = {}
        for each in path:
            names = {*each.desc.input_arg_names(), *self.passed_through(each)}
            for name in names & self.many:
                used.setdefault(name, set()).add(self.before(each, name))
        #: version whose gradient has the plain name
        self.plain = {n: self._plain_version(n, used.get(n, set())) for n in self.many}
        #: (variable, version) whose value gradient operators read and that a copy must keep
        self.copies: dict[tuple[str, int], str] = {}

    # ------------------------------------------------------------------ facts

    def _is_dense(self, name: str) -> bool:
        if name not in self._kept:
            desc = self.block.desc
            var = desc.find_var_recursive(name) if desc.has_var_recursive(name) else None
            self._kept[name] = var is not None and (var.type() in _DENSE or name in self.arrays)
        return self._kept[name]

    def is_local(self, name: str) -> bool:
        """Whether the block itself declares the variable."""
        if name not in self._is_local:
            self._is_local[name] = self.block.desc.find_var(name) is not None
        return self._is_local[name]

    def _is_other_branch(self, first: Any, second: Any) -> bool:
        """Whether the operators are the two branches of a cond, of which one runs."""
        if first is None or first.type != "conditional_block" or second.type != "conditional_block":
            return False
        (condition,), other = first.desc.input("Cond")[:1], second.desc.input("Cond")
        for op in self.block.ops:
            if op.type == "logical_not" and op.desc.output("Out") == other:
                return op.desc.input("X") == [condition]
        return False

    def has_entry(self, name: str) -> bool:
        """Whether the variable has a value when the block starts."""
        writes = self.writes.get(name, [])
        reads = self.first_read.get(name)
        if reads is not None and (not writes or reads <= writes[0]):
            return True
        if not self.is_local(name):
            if self.kind != "conditional_block" or self.outer is None:
                return True
            before, after = self.outer.before(self.op, name), self.outer.after(self.op, name)
            return after > before and (before > 0 or self.outer.has_entry(name))
        if self.kind == "recurrent" and name in {*self.op.desc.input("inputs"), *self.op.attr("ex_states")}:
            return True
        var = self.block.desc.find_var(name)
        return var.persistable() and self.block.idx == 0 or bool(getattr(self.block.vars.get(name), "is_data", False))

    def _plain_version(self, name: str, used: set[int]) -> int:
        var = self.block._find_var_recursive(name)
        if self.has_entry(name) and not (var is not None and var.persistable):
            return 0
        return min(used) if used and name not in self.targets else self.last(name)

    def last(self, name: str) -> int:
        return len(self.writes.get(name, ()))

    def before(self, op: Any, name: str) -> int:
        """The version that `op` reads."""
        return bisect.bisect_left(self.writes.get(name, ()), self.at[id(op)])

    def after(self, op: Any, name: str) -> int:
        """The version that exists after `op`."""
        return bisect.bisect_right(self.writes.get(name, ()), self.at[id(op)])

    def passed_through(self, op: Any) -> list[str]:
        """Variables that `op` leaves as they are where its block does not run."""
        if op.type not in PARTIAL_WRITERS:
            return []
        outs = [n for n in op.desc.output_arg_names() if n in self.writes]
        return [n for n in outs if self.before(op, n) < self.after(op, n) and (self.before(op, n) or self.has_entry(n))]

    # ------------------------------------------------------------------ names

    def _mark(self, name: str, version: int) -> str:
        return f"{name}{VERSION_MARK}{self.block.idx}@{version}"

    def gradient(self, name: str, version: int) -> str:
        """The name of the gradient of a version."""
        if name in self.many and version != self.plain[name]:
            name = self._mark(name, version)
        return name + GRAD_VAR_SUFFIX

    def gradients(self, name: str) -> list[str]:
        """The names of the gradients of all versions."""
        return [self.gradient(name, k) for k in range(self.last(name) + 1)]

    def stopped(self, no_grad: set[str]) -> set[str]:
        """The gradients of all versions of the variables whose gradients are in `no_grad`."""
        return {g for name in self.many if name + GRAD_VAR_SUFFIX in no_grad for g in self.gradients(name)}

    def arriving(self, name: str) -> str:
        """The name, in this block's gradient block, of the gradient that arrives for the last version of an outer
        variable.
        """
        if self.kind == "conditional_block" and self.outer is not None:
            return self.outer.gradient(name, self.outer.after(self.op, name))
        return name + GRAD_VAR_SUFFIX

    def value(self, name: str, version: int) -> str:
        """The name of the value of a version; it is copied where it would be lost."""
        if self.is_local(name):
            if name not in self.many or version == self.last(name):
                return name
        elif self.kind == "while":
            if version == 0:
                return name
        elif self.outer is not None:
            if version == 0:
                return self.outer.value(name, self.outer.before(self.op, name))
            if version == self.last(name):
                return self.outer.value(name, self.outer.after(self.op, name))
        elif version == self.last(name):
            return name
        return self.copies.setdefault((name, version), self._mark(name, version))

    def is_tracked(self, name: str) -> bool:
        """Whether gradient operators may see the variable under other names."""
        if name in self.many or (self.kind == "while" and name in self.writes and not self.is_local(name)):
            return True
        if name == EMPTY_VAR_NAME or self.is_local(name) or self.kind == "while":
            return False
        return self.outer is not None and self.outer.is_tracked(name)

    # ------------------------------------------------------------------ gradient operators

    def grad_descs(self, op: Any, no_grad: set[str], sub_blocks: list) -> tuple[list, dict[str, str]]:
        """The gradient operators of `op`, and the variables of the gradients that they write."""
        if sub_blocks:
            return self._of_control_flow(op, no_grad, sub_blocks)
        ins = {n for n in op.desc.input_arg_names() if self.is_tracked(n)}
        outs = {n for n in op.desc.output_arg_names() if self.is_tracked(n)}
        if not ins and not outs:
            return core.get_grad_op_desc(op.desc, no_grad, sub_blocks)
        marks: dict[str, tuple[str, int]] = {}

        def mark(name: str, version: int) -> str:
            marked = f"{name}{VERSION_MARK}{version}@AT"
            marks[marked] = (name, version)
            return marked

        forward = core.OpDesc()
        forward.copy_from(op.desc)
        for slot in op.desc.input_names():
            names = op.desc.input(slot)
            forward.set_input(slot, [mark(n, self.before(op, n)) if n in ins else n for n in names])
        for slot in op.desc.output_names():
            names = op.desc.output(slot)
            forward.set_output(slot, [mark(n, self.after(op, n)) if n in outs else n for n in names])
        stopped = no_grad | {m + GRAD_VAR_SUFFIX for m, (n, _) in marks.items() if n + GRAD_VAR_SUFFIX in no_grad}
        if op.type == "increment":
            inexact = _takes_gradient(self.block, op.desc.input("X")[0])
            descs, owners = self._of_increment(forward, stopped) if inexact else ([], {})
        else:
            descs, owners = core.get_grad_op_desc(forward, stopped, [])
            if op.type == "write_to_array" and outs:
                descs, owners = [*descs, *self._of_other_elements(op, no_grad)], dict(owners)

        def real(name: str, shape_only: bool) -> str:
            if name in marks:
                plain, version = marks[name]
                return plain if shape_only else self.value(plain, version)
            base = name.removesuffix(GRAD_VAR_SUFFIX)
            return self.gradient(*marks[base]) if base != name and base in marks else name

        for desc in descs:
            shapes = _shape_slots().get(desc.type(), frozenset())
            for slot in desc.input_names():
                desc.set_input(slot, [real(n, slot in shapes) for n in desc.input(slot)])
            for slot in desc.output_names():
                desc.set_output(slot, [real(n, False) for n in desc.output(slot)])
        return descs, {real(g, False): self._owner(real(g, False), v, marks) for g, v in dict(owners).items()}

    @staticmethod
    def _owner(gradient: str, var: str, marks: dict[str, tuple[str, int]]) -> str:
        name = marks[var][0] if var in marks else var
        return name if gradient == name + GRAD_VAR_SUFFIX else gradient.removesuffix(GRAD_VAR_SUFFIX)

    @staticmethod
    def _of_increment(forward: Any, stopped: set[str]) -> tuple[list, dict[str, str]]:
        """The gradient of increment in place, the identity. (2.0.2 takes the step back in the variable itself.)"""
        (x,), (out,) = forward.input("X"), forward.output("Out")
        if x + GRAD_VAR_SUFFIX in stopped:
            return [], {}
        desc = core.OpDesc()
        desc.set_type("assign")
        desc.set_input("X", [out + GRAD_VAR_SUFFIX])
        desc.set_output("Out", [x + GRAD_VAR_SUFFIX])
        desc._set_attr(OP_ROLE, int(OpRole.Backward))
        return [desc], {x + GRAD_VAR_SUFFIX: x}

    def _of_other_elements(self, op: Any, no_grad: set[str]) -> list:
        """The gradient of the array before `op`, which replaces an element: the one after it, with zeros there."""
        (array,), (index,), (x,) = op.desc.output("Out"), op.desc.input("I"), op.desc.input("X")
        before = self.before(op, array)
        if array + GRAD_VAR_SUFFIX in no_grad or not (before or self.has_entry(array)):
            return []
        zeros, set_zeros = core.OpDesc(), core.OpDesc()
        name = unique_name.generate(without_version(x) + ".zeros")
        zeros.set_type("fill_zeros_like")
        zeros.set_input("X", [x])
        zeros.set_output("Out", [name])
        set_zeros.set_type("write_to_array")
        set_zeros.set_input("X", [name])
        set_zeros.set_input("I", [self.value(index, self.before(op, index))])
        set_zeros.set_input("Array", [self.gradient(array, self.after(op, array))])
        set_zeros.set_output("Out", [self.gradient(array, before)])
        for desc in (zeros, set_zeros):
            desc._set_attr(OP_ROLE, int(OpRole.Backward))
        return [zeros, set_zeros]

    def _of_control_flow(self, op: Any, no_grad: set[str], sub_blocks: list) -> tuple[list, dict[str, str]]:
        """As `grad_descs`, of an operator with a block: only the names of gradients differ from 2.0.2's."""
        forward = core.OpDesc()
        forward.copy_from(op.desc)
        slot = PARTIAL_WRITERS.get(op.type)
        if slot is not None:
            names = op.desc.input(slot)
            forward.set_input(slot, [*names, *(n for n in self.passed_through(op) if n not in names)])
        descs, owners = core.get_grad_op_desc(forward, no_grad, sub_blocks)
        renamed: dict[str, str] = {}
        arrays = [n for n in op.desc.output_arg_names() if n in self.arrays] if op.type == "while" else []
        for desc in descs:
            if arrays:
                desc._set_attr("versioned_arrays", arrays)
            for key in desc.input_names():
                if key.endswith(GRAD_VAR_SUFFIX):
                    desc.set_input(key, [self._renamed(n, op, self.after) for n in desc.input(key)])
            for key in desc.output_names():
                if key.endswith(GRAD_VAR_SUFFIX):
                    old = desc.output(key)
                    new = [self._renamed(n, op, self.before) for n in old]
                    renamed.update(zip(old, new, strict=True))
                    desc.set_output(key, new)
        owned: dict[str, str] = dict(owners)
        named = [(renamed[g] if g in renamed else g, v) for g, v in owned.items()]
        return descs, {g: self._owner(g, v, {}) for g, v in named}

    def _renamed(self, gradient: str, op: Any, which: Any) -> str:
        name = gradient.removesuffix(GRAD_VAR_SUFFIX)
        return self.gradient(name, which(op, name)) if name in self.many else gradient

    # ------------------------------------------------------------------ blocks of control flow

    def carried(self) -> list[str]:
        """Outer variables that the block writes, in order."""
        return [n for n in self.writes if not self.is_local(n)]

    def without_cut(self, descs: list, create: Any, present: set[str], no_grad: set[str]) -> list:
        """`descs` without the operators whose gradients end at a later writer: no operator writes the gradient of the
        version that they differentiate. Other missing gradients become zeros, but those in `no_grad`, which are added
        later. `present`: gradients that exist already.
        """
        if not self.many:
            return descs
        writers = collections.Counter(name for desc in descs for name in desc.output_arg_names())
        absent = {g for name in self.many for g in self.gradients(name) if not writers[g] and g not in present}
        if self.op is not None:
            # variables of the step itself, whose readers have been left out
            for name in {n for desc in descs for n in desc.input_arg_names() if n.endswith(GRAD_VAR_SUFFIX)}:
                if not writers[name] and name not in present and self.is_local(name.removesuffix(GRAD_VAR_SUFFIX)):
                    absent.add(name)
            arriving = {self.gradient(name, self.last(name)) for name in self.carried()}
            present = present | arriving
            absent -= arriving
        if self.kind == "recurrent":
            states = [*self.op.desc.output("outputs"), *self.op.attr("states")]
            absent -= {name + GRAD_VAR_SUFFIX for name in states}
        kept: list = []
        for desc in descs:
            inputs = [n for n in desc.input_arg_names() if GRAD_VAR_SUFFIX in n]
            missing = absent.intersection(inputs)
            if missing and all(n in absent or n in no_grad for n in inputs):
                for name in desc.output_arg_names():
                    writers[name] -= 1
                    if not writers[name] and name not in present:
                        absent.add(name)
                continue
            for name in sorted(missing - no_grad):
                like = without_version(name.removesuffix(GRAD_VAR_SUFFIX))
                kept.append(create("fill_zeros_like", {"X": [like]}, {"Out": [name]}, {}))
                absent.discard(name)
            kept.append(desc)
        return kept

    def with_arriving(self, descs: list, create: Any, stopped: set[str]) -> list:
        """`descs` of a block of control flow, started with the gradients that arrive for outer variables which the
        block overwrites.
        """
        before: list = []
        after: list = []
        below = self._named_below(descs)
        reads: dict[str, list[int]] = {}
        writes: dict[str, list[int]] = {}
        for i, desc in enumerate(descs):
            for name in desc.input_arg_names():
                reads.setdefault(name, []).append(i)
            for name in desc.output_arg_names():
                writes.setdefault(name, []).append(i)
        for name in self.carried():
            if name + GRAD_VAR_SUFFIX in stopped:
                continue
            last, first = self.gradient(name, self.last(name)), self.gradient(name, 0)
            source = self.arriving(name)
            if self.kind == "conditional_block" and name not in self.many and last in writes:
                # the branch also reads what it wrote: the local sum gets a name of its own
                mine = self._mark(name, self.last(name)) + GRAD_VAR_SUFFIX
                self._rename(descs, last, mine)
                before.append(create("assign", {"X": [source]}, {"Out": [mine]}, {}))
                continue
            active = last in reads or last in writes or (last != first and first in writes)
            # a loop may have no turn: the gradient passes it
            if not active and not (self.kind == "while" and _takes_gradient(self.block, name)):
                continue
            if last == source:
                continue
            if name in self.many and self.kind == "while" and first not in writes:
                # the value that the step started with has no gradient: zeros
                after.append(create("fill_zeros_like", {"X": [name]}, {"Out": [first]}, {}))
            if last not in writes and last in reads and last not in below:
                begin, end = min(writes.get(source, [len(descs)])), max(reads[last])
                if source != first or end < begin or (end == begin and len(writes[source]) == 1):
                    self._rename(descs, last, source)
                    continue
            before.append(create("assign", {"X": [source]}, {"Out": [last]}, {}))
        return [*before, *descs, *after]

    def _named_below(self, descs: Iterable) -> set[str]:
        """Names in the branches below `descs`, which may write the variable that the arriving gradient is in."""
        names: set[str] = set()
        for desc in descs:
            if desc.type() == "conditional_block_grad":
                inside = self.block.program.block(desc._block_attr_id("sub_block")).desc
                ops = [inside.op(i) for i in range(inside.op_size())]
                names.update(n for op in ops for n in [*op.input_arg_names(), *op.output_arg_names()])
                names |= self._named_below(ops)
        return names

    def _rename(self, descs: Iterable, old: str, new: str) -> None:
        """Rename a gradient in operators, and in branches below them, which find it by its name."""
        for desc in descs:
            desc._rename_input(old, new)
            desc._rename_output(old, new)
            if desc.type() == "conditional_block_grad":
                inside = self.block.program.block(desc._block_attr_id("sub_block")).desc
                self._rename([inside.op(i) for i in range(inside.op_size())], old, new)

    def insert_copies(self) -> int:
        """Insert the operators that copy the versions which gradient operators read; returns their number."""
        places = []
        for (name, version), copy in self.copies.items():
            if self.block.desc.find_var(copy) is not None:
                continue  # of an earlier pass
            where = self.ends[name, version] + 1 if version else self.writes[name][0]
            places.append((where, name, copy))
        for where, name, copy in sorted(places, reverse=True):
            var = self.block._var_recursive(name)
            writer = self.block.ops[min(where, len(self.block.ops) - 1)]
            device = writer.attr(OP_DEVICE) if writer.has_attr(OP_DEVICE) else ""
            self.block.create_var(
                name=copy,
                dtype=var.dtype,
                shape=var.shape,
                type=var.type,
                lod_level=var.lod_level if var.type == VarType.LOD_TENSOR else None,
                stop_gradient=var.stop_gradient,
            )
            self.block._insert_op(
                where,
                type="assign",
                inputs={"X": [name]},
                outputs={"Out": [copy]},
                attrs={OP_ROLE: int(OpRole.Forward), OP_DEVICE: device},
            )
        self.copies.clear()
        return len(places)
