"""Recipes: the launches and library calls of an operator call, recorded while its launcher runs, as
rust/py/src/device/recipe.rs replays them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .call import NAMES, Call, Drawn, Shape

_INPUT, _BUFFER, _NUMBER, _DRAWN = range(4)
_DRAWS = _DRAWN, 0, 0


def record(call: Call) -> None:
    """Record the launches and allocations of a call from now on."""
    call.launched, call.allocated = [], []


class _Unknown(Exception):
    """A value that neither is an operand nor was allocated by the call: there is no recipe."""


def recipe(call: Call, made: dict) -> tuple | None:
    """(steps, bytes of buffers, results) of a recorded call; None if a replay would not do the same: a kernel reads or
    a result is memory that the launcher did not get from the call. A call without launches passes its inputs on."""
    if call.launched is None or call.lods_out or not (call.launched or made and not call._old):
        return None
    try:
        places = _Places(call)
        steps: list[tuple] = []
        for of, kernel, grid, block, args in call.launched:
            sizes, given = tuple(int(n) for n in (*grid, 1, 1, 1)[:3]), [places.argument(a) for a in args]
            if isinstance(of, str):  # the name of a function of a library, and its address
                steps.append((kernel, of, sizes, block, 0, given))
            else:
                steps.append((call.machine.pointer(of, kernel), None, sizes, block, 0, given))
        results = [r for i, slot in enumerate(call.wanted) for r in places.results(i, made.get(slot))]
        return _sharing(steps, [a.nbytes for a in call.allocated], results)
    except _Unknown:
        return None


def _sharing(steps: list[tuple], sizes: list[int], results: list[tuple]) -> tuple:
    """The recipe with temporary values that are not needed at the same step in the same memory. A result has memory of
    its own; a buffer that no step uses has none."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for kind, index, _ in step[-1]:
            if kind == _BUFFER:
                first.setdefault(index, number)
                last[index] = number
    own = {r[3] for r in results if not r[2]}
    shared: list[int] = []
    to: dict[int, int] = {}
    for index in sorted(own):
        to[index] = len(shared)
        shared.append(sizes[index])
    #: (last step, buffer) of the temporary values
    used: list[list[int]] = []
    for index in sorted(first.keys() - own, key=first.__getitem__):
        free = [u for u in used if u[0] < first[index]]
        # The smallest that is large enough, else the largest, which grows.
        fits = [u for u in free if shared[u[1]] >= sizes[index]]
        found = min(fits, key=lambda u: shared[u[1]]) if fits else max(free, key=lambda u: shared[u[1]], default=None)
        if found is None:
            used.append(found := [0, len(shared)])
            shared.append(0)
        found[0] = last[index]
        shared[found[1]] = max(shared[found[1]], sizes[index])
        to[index] = found[1]

    def moved(arg: tuple[int, int, int]) -> tuple[int, int, int]:
        return (_BUFFER, to[arg[1]], arg[2]) if arg[0] == _BUFFER else arg

    steps = [(*step[:-1], [moved(arg) for arg in step[-1]]) for step in steps]
    return steps, shared, [r if r[2] else (*r[:3], to[r[3]], *r[4:]) for r in results]


class _Places:
    """Addresses of the operands and of what the call allocated."""

    def __init__(self, call: Call) -> None:
        self.address = call.machine.address
        self.inputs: list[tuple[int, int, int]] = []
        self.given: dict[int, Any] = {}
        for slot, value in enumerate(call.ins.values()):
            for at, v in enumerate(value if isinstance(value, list) else [value]):
                if v is not None and not isinstance(v, Shape):
                    self.inputs.append((self.address(v), v.nbytes, slot << 16 | at))
                    self.given[slot << 16 | at] = v
        self.buffers = [(self.address(a), a.nbytes, i) for i, a in enumerate(call.allocated)]

    def _place(self, array: Any) -> tuple[int, int, int]:
        at, size = self.address(array), array.nbytes
        for kind, known in ((_BUFFER, self.buffers), (_INPUT, self.inputs)):
            found = [
                (index, at - start) for start, length, index in known if start <= at and at + size <= start + length
            ]
            # Several inputs at one address are one by the key; those that overlap otherwise cannot be distinguished.
            if found and all(offset == found[0][1] for _, offset in found):
                return kind, *found[0]
        raise _Unknown

    def argument(self, value: Any) -> tuple[int, int, int]:
        if isinstance(value, Drawn):
            return _DRAWS
        if isinstance(value, int):
            return _NUMBER, 0, value & (1 << 64) - 1
        if isinstance(value, np.generic):
            return _NUMBER, 0, int.from_bytes(value.tobytes().ljust(8, b"\0"), "little")
        return self._place(value)

    def results(self, slot: int, value: Any) -> list[tuple]:
        """(output slot, position in it, kind, index, data type, shape) of the values of a slot."""
        values = value if isinstance(value, list) else [value]
        return [self._result(slot, at, v) for at, v in enumerate(values) if v is not None]

    def _result(self, slot: int, at: int, value: Any) -> tuple:
        if not hasattr(value, "nbytes") or not value.flags.c_contiguous:
            raise _Unknown
        kind, index, offset = self._place(value)
        if offset:
            raise _Unknown
        if kind == _INPUT:  # all of its elements, of the same data type
            given = self.given[index]
            if (value.nbytes, value.dtype) != (given.nbytes, given.dtype):
                raise _Unknown
        return slot, at, int(kind == _INPUT), index, NAMES[value.dtype], list(value.shape)
