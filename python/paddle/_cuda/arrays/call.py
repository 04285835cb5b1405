"""Runs a launcher that is written with numpy's functions by launches alone, while its call is recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..call import DTYPES, Call, Declined, Each, Rows, Shape, machine_upload
from ..halves import HALVES
from .array import Array, Lacking, unwrapped
from .namespace import CONSTANTS, Namespace

__all__ = ["Lacking", "through_launches"]


#: bytes of temporary values of a recording, besides four times those of its operands and results
_MOST = 1 << 30


def _bytes(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_bytes, value))
    return 0 if isinstance(value, Shape) else getattr(value.value if isinstance(value, Rows) else value, "nbytes", 0)


def _bytes_of(rule: tuple) -> int:
    shape, dtype = rule
    return max(0, math.prod(shape)) * DTYPES[dtype].itemsize if dtype in DTYPES else 0


class _Machine:
    """The machine, whose downloads end the recording."""

    def __init__(self, call: ArrayCall, machine: Any) -> None:
        self._call, self.real = call, machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def download(self, array: Any) -> Any:
        self._call.unrecorded()
        return self.real.download(unwrapped(array))

    def upload(self, array: Any, host: Any) -> None:
        self._call.unrecorded()
        self.real.upload(array.raw if isinstance(array, Array) else array, host)


class ArrayCall(Call):
    """A call whose arrays are `Array`s and whose `xp` is a `Namespace`."""

    def __init__(self, of: Call) -> None:
        self.__dict__.update(vars(of))
        self._parent = self._of = of
        self.ins = {slot: self._wrapped(value) for slot, value in of.ins.items()}
        self._old = {slot: self._wrapped(value) for slot, value in of._old.items()}
        self.machine = _Machine(self, of.machine)
        self.xp = self.functions = Namespace(self, of.xp)
        self.wrote = False
        #: bytes that may be allocated; all are held until the recording ends
        self.left = _MOST + 4 * (_bytes(list(of.ins.values())) + sum(map(_bytes_of, of._rule.values())))

    def _wrapped(self, value: Any) -> Any:
        if value is None or isinstance(value, Shape):
            return value
        if isinstance(value, list):
            return [self._wrapped(v) for v in value]
        if isinstance(value, Rows):
            return Rows(value.rows, value.height, self._wrapped(value.value))
        return Array(self, value)

    def empty(self, shape: Any, dtype: Any) -> Array:
        array = self.machine.real.xp.empty(shape, dtype)
        if self.launched is not None:
            self.left -= array.nbytes
            if self.left < 0:
                raise Lacking("memory")
            self.allocated.append(array)
        return Array(self, array)

    def written(self, array: Array) -> None:
        """Elements of an array are replaced; those of an operand cannot be once more."""
        at, size = self.machine.address(array), array.nbytes
        self.wrote |= not any(
            (start := self.machine.address(a)) <= at and at + size <= start + a.nbytes for a in self.allocated
        )

    def launch(self, unit: Any, kernel: str, grid: Any, block: int, *args: Any) -> None:
        super().launch(unit, kernel, grid, block, *map(unwrapped, args))

    def library(self, name: str, *args: Any) -> None:
        super().library(name, *(a.raw if isinstance(a, Array) else a for a in args))

    @property
    def real_machine(self) -> Any:
        return self.machine.real

    def upload(self, host: Any) -> Any:
        try:
            return self.xp.asarray(host)
        except Lacking:
            self.unrecorded()
            return Array(self, machine_upload(self.machine.real, host))

    def held(self, pairs: tuple) -> tuple:
        return tuple(
            (host, self.xp.asarray(host) if host.size <= CONSTANTS else Array(self, device)) for host, device in pairs
        )

    def result(self, value: Any) -> Any:
        """A result as the runtime takes it."""
        if isinstance(value, list):
            return [self.result(v) for v in value]
        if isinstance(value, Rows):
            return Rows(value.rows, value.height, self.result(value.value))
        if isinstance(value, Each):
            return Each(lambda i: self.result(value.make(i)))
        for given, own in zip(self._old.values(), self._of._old.values(), strict=True):
            if value is given:
                return own
        return unwrapped(value)


def through_launches(launch: Callable[[Call], dict]) -> Callable[[Call], dict]:
    """A launcher with a recipe from one that is written with numpy's functions; without one where they are no launches
    of kernels."""

    def run(call: Call) -> dict:
        if call.launched is None:
            return launch(call)
        wide = ArrayCall(call)
        try:
            return {slot: wide.result(value) for slot, value in launch(wide).items()}
        except Lacking as missing:
            if wide.wrote:
                raise RuntimeError(f"the launcher of {call.op} has written an operand") from None
            if str(missing) in HALVES:
                raise Declined from None  # computed in float32
            call.unrecorded()
            call.lods_out.clear()
            return launch(call)

    return run
