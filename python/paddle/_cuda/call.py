"""Call: the arguments of an operator call as launchers see them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import paddle._core as _core

from .units import TYPES, Unit

# Data types with another name in numpy, which has no bfloat16: its bits are stored as uint16.
NUMPY_NAMES = {"bfloat16": "uint16"}
_TYPES = "bool int8 uint8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
#: numpy's type by Paddle's name, and back
DTYPES = {name: np.dtype(NUMPY_NAMES.get(name, name)) for name in _TYPES}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_NUMPY = {dtype: dtype.name for dtype in NAMES}
_WORD = (1 << 64) - 1


class Declined(Exception):
    """Raised by a launcher for unsupported arguments (a data type, an option): the operator then runs on the CPU."""


@dataclass(frozen=True)
class Drawn:
    """A seed of the generator of `paddle.seed`; a replay of the call draws another one."""

    value: np.uint64


@dataclass
class Rows:
    """SelectedRows: row `rows[i]` of `height` rows is `value[i]`; `rows` is in host memory."""

    rows: np.ndarray
    height: int
    value: Any


@dataclass
class Shape:
    """A tensor whose elements were not kept."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass
class Each:
    """The values of a duplicable output whose number the launcher does not know: `make(i)` is value i."""

    make: Callable[[int], Any]


class Call:
    """Inputs by slot (arrays, `Rows`, `Shape`, None, or lists of them), attributes, and the requested outputs.

    `out(slot)` allocates memory with the shape and data type that shape inference gives the output; `old(slot)` is the
    initial array of an output that is updated in place (``ParamOut``). `lods` has, for the slots of which a value has a
    LoD, the levels of each value or None; `lods_out` those that the launcher sets.
    """

    #: whether products of float32 may round their operands to TF32, whatever the machine's switch says
    tf32 = False
    #: the call that `like` was called of
    _parent: Call | None = None

    def __init__(
        self,
        machine,
        op: str,
        ins: dict,
        attrs: dict,
        wanted: dict,
        old: dict,
        rule: dict,
        lods: dict | None = None,
        device: int = 0,
    ) -> None:
        self.machine, self.op, self.ins, self.attrs, self.wanted = machine, op, ins, attrs, wanted
        self._old, self._rule, self.lods, self.device = old, rule, lods or {}, device
        self.lods_out: dict[str, list] = {}
        #: what recipe.py records: launches and library calls, and arrays of `out` and `empty`
        self.launched: list | None = None
        self.allocated: list = []
        self.xp = machine.xp

    def lod(self, slot: str, index: int = 0) -> list[list[int]]:
        """The levels of the LoD of an input, offsets in host memory; [] if it has none."""
        found = self.lods.get(slot)
        return (found[index] if found else None) or []

    def level(self, slot: str, index: int = 0, last: bool = False) -> np.ndarray:
        """The offsets of the first (or last) level, which divides the rows of an input into sequences; Declined if
        there is none, or if it does not."""
        levels, value = self.lod(slot, index), self.ins.get(slot)
        value = value[index] if isinstance(value, list) else value
        if not levels or value is None or not value.shape:
            raise Declined
        offsets = np.asarray(levels[-1 if last else 0], np.int64)
        if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != value.shape[0] or (np.diff(offsets) < 0).any():
            raise Declined
        return offsets

    def set_lod(self, slot: str, levels: list) -> None:
        """Set the LoD of an output; without this call it is that of shape inference."""
        self.lods_out[slot] = [[int(i) for i in level] for level in levels]

    def set_lods(self, slot: str, of_items: list) -> None:
        """Set the LoD of each item of a duplicable output."""
        self.lods_out[slot] = [[list(map(int, level)) for level in levels] for levels in of_items]

    @property
    def real_machine(self) -> Any:
        """The machine itself, where the call has one that records."""
        return self.machine

    def upload(self, host: np.ndarray):
        """A device array with the elements of a host array."""
        return machine_upload(self.machine, host)

    def held(self, pairs: tuple) -> tuple:
        """Pairs of host and device arrays that other calls share, as arrays of this call."""
        return pairs

    def old(self, slot: str):
        return self._old[slot]

    def array(self, slot: str):
        """The dense input of a slot; Declined for another kind."""
        value = self.ins.get(slot)
        if value is None or isinstance(value, (Rows, Shape, list)):
            raise Declined
        return value

    def floats(self, *slots: str) -> list:
        """The dense inputs of slots, which must be floating-point and have the same data type."""
        arrays = [self.array(slot) for slot in slots]
        same_dtype(*arrays)
        if arrays[0].dtype.kind != "f":
            raise Declined
        return arrays

    def filled(self, *slots: str) -> list:
        """As `floats`; Declined if one has no elements."""
        arrays = self.floats(*slots)
        if any(v.size == 0 for v in arrays):
            raise Declined
        return arrays

    def has(self, slot: str) -> bool:
        """Whether an input is given."""
        value = self.ins.get(slot)
        return value is not None and not (isinstance(value, list) and not value)

    def alone(self, *slots: str) -> None:
        """Declined if an input of another slot is given, such as a size or an axis that is a tensor."""
        if any(self.has(slot) for slot in self.ins if slot not in slots):
            raise Declined

    def sized_by(self, *slots: str) -> None:
        """The inferred shapes depend on elements of these inputs, which no key of recipes holds: the call has no
        recipe if one is given."""
        if any(map(self.has, slots)):
            self.unrecorded()

    def numbers(self, slot: str) -> list:
        """The elements of a small tensor of sizes or axes, read from the device (the call has no recipe then); [] if it
        is not given."""
        value = self.ins.get(slot)
        if value is not None:
            self.launched = None
        return [] if value is None else np.asarray(self.machine.download(self.array(slot))).reshape(-1).tolist()

    def shape(self, slot: str) -> tuple[int, ...]:
        """The inferred shape of an output; Declined if a size is unknown."""
        shape = self._rule[slot][0] if slot in self._rule else (-1,)
        if any(d < 0 for d in shape):
            raise Declined
        return shape

    def dtype(self, slot: str) -> str:
        """The inferred data type of an output, by numpy's name; Declined for types that numpy lacks."""
        if slot not in self._rule or self._rule[slot][1] in NUMPY_NAMES:
            raise Declined
        return self._rule[slot][1]

    def out(self, slot: str):
        shape, dtype = self._rule[slot]
        return self.empty(shape, NUMPY_NAMES.get(dtype, dtype))

    def empty(self, shape, dtype):
        array = self.xp.empty(shape, dtype)
        if self.launched is not None:
            self.allocated.append(array)
        return array

    def like(self, attrs: dict) -> Call:
        """A call with other attributes, whose launches and memory are part of this one."""
        made = copy.copy(self)
        made.attrs, made._parent = attrs, self
        return made

    def unrecorded(self) -> None:
        """The call does something that a recipe would not repeat: it has none."""
        self.launched = None
        if self._parent is not None:
            self._parent.unrecorded()

    def launch(self, unit: Unit, kernel: str, grid, block: int, *args) -> None:
        """Run an instance of a kernel on contiguous arrays, numpy scalars and seeds."""
        grid = (grid,) if isinstance(grid, int) else grid
        if self.launched is not None:
            self.launched.append((unit, kernel, grid, block, args))
        args = tuple(a.value if isinstance(a, Drawn) else a for a in args)
        self.machine.kernel(unit, kernel)(grid, (block,), args)

    def drawn(self) -> Drawn:
        """A number of the generator as an argument of kernels."""
        return Drawn(np.uint64(_core.random_u64()))

    def library(self, name: str, *args) -> None:
        """Call a function of a CUDA library, of integers, addresses and arrays, that returns a status; OSError if it is
        not 0."""
        address = self.machine.function(name)
        if self.launched is not None:
            self.launched.append((name, address, (), 0, args))
        values = [a if isinstance(a, int) else self.machine.address(a) for a in args]
        _core.call_library(name, address, [v & _WORD for v in values])


def machine_upload(machine: Any, host: np.ndarray):
    """A device array with the elements of a host array."""
    array = machine.xp.empty(host.shape, host.dtype)
    if host.size:
        machine.upload(array.reshape(-1).view(np.uint8), host)
    return array


def number(value: float, dtype: Any) -> np.generic:
    """A number in a numeric data type, as the CPU kernels convert it (cast.rs): a floating-point number becomes an
    integer as by x86 instructions, whatever the machine of the host or the device does with one that is out of range.
    """
    of = np.dtype(dtype)
    if of.kind not in "iu":
        with np.errstate(over="ignore"):
            return of.type(value)
    low = 1 << (63 if of.itemsize == 8 else 31)
    bits = (int(value) if -low - 1 < value < low else -low) & (1 << 8 * of.itemsize) - 1
    return np.frombuffer(bits.to_bytes(of.itemsize, "little"), of.newbyteorder("<")).astype(of)[0]


def ctype(array, allowed: dict[str, str] = TYPES) -> str:
    """The C type of an array's elements; Declined if the kernel has no instance for it."""
    try:
        return allowed[_NUMPY[array.dtype]]
    except KeyError:
        raise Declined from None


def same_dtype(*arrays) -> None:
    """Declined unless all arrays have the same data type."""
    if any(a.dtype != arrays[0].dtype for a in arrays):
        raise Declined
