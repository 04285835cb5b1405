"""A call of an operator as launchers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .units import TYPES, Unit

# Data types that numpy has under another name.
NUMPY_NAMES = {"bfloat16": "uint16"}


class Declined(Exception):
    """A launcher does not take these arguments (a data type, an option): the operator runs on the CPU."""


@dataclass
class Rows:
    """SelectedRows: row `rows[i]` of `height` is `value[i]`; the numbers are on the host."""

    rows: np.ndarray
    height: int
    value: Any


@dataclass
class Shape:
    """A tensor of which nobody kept the elements."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


class Call:
    """Inputs by slot (arrays, `Rows`, `Shape`, None, or lists of them), attributes, and which outputs are wanted.

    `out(slot)` is new memory of the shape and data type that the operator's shape rule gives the output;
    `old(slot)` is the array that the output of that slot starts with, to be changed in place (``ParamOut``).
    """

    def __init__(self, machine, op: str, ins: dict, attrs: dict, wanted: dict, old: dict, rule: dict) -> None:
        self.machine, self.op, self.ins, self.attrs, self.wanted = machine, op, ins, attrs, wanted
        self._old, self._rule = old, rule
        self.xp = machine.xp

    def old(self, slot: str):
        return self._old[slot]

    def array(self, slot: str):
        """The dense input of a slot; Declined if it is something else."""
        value = self.ins.get(slot)
        if value is None or isinstance(value, (Rows, Shape, list)):
            raise Declined
        return value

    def floats(self, *slots: str) -> list:
        """The dense inputs of slots, which must be floating-point numbers of one data type."""
        arrays = [self.array(slot) for slot in slots]
        same_dtype(*arrays)
        if arrays[0].dtype.kind != "f":
            raise Declined
        return arrays

    def alone(self, *slots: str) -> None:
        """Declined where an input of another slot is given: a size or an axis that comes as a tensor."""
        if any(value is not None and value != [] for slot, value in self.ins.items() if slot not in slots):
            raise Declined

    def shape(self, slot: str) -> tuple[int, ...]:
        """The shape that the rule gives an output; Declined if it does not know all sizes."""
        shape = self._rule[slot][0] if slot in self._rule else (-1,)
        if any(d < 0 for d in shape):
            raise Declined
        return shape

    def dtype(self, slot: str) -> str:
        """The data type that the rule gives an output, by numpy's name; Declined for one that numpy has not."""
        if slot not in self._rule or self._rule[slot][1] in NUMPY_NAMES:
            raise Declined
        return self._rule[slot][1]

    def out(self, slot: str):
        shape, dtype = self._rule[slot]
        return self.xp.empty(shape, NUMPY_NAMES.get(dtype, dtype))

    def empty(self, shape, dtype):
        return self.xp.empty(shape, dtype)

    def launch(self, unit: Unit, kernel: str, grid, block: int, *args) -> None:
        """Run a kernel's instance on arrays (contiguous) and numpy scalars."""
        grid = (grid,) if isinstance(grid, int) else grid
        self.machine.kernel(unit, kernel)(grid, (block,), args)


def ctype(array, allowed: dict[str, str] = TYPES) -> str:
    """The C type of an array's elements; Declined if a kernel is not made for it."""
    try:
        return allowed[array.dtype.name]
    except KeyError:
        raise Declined from None


def same_dtype(*arrays) -> None:
    """Declined unless all arrays have one data type."""
    if any(a.dtype != arrays[0].dtype for a in arrays):
        raise Declined
