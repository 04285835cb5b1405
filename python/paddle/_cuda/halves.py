"""float16 and bfloat16 for launchers that compute in float32 or float64: operands are widened to float32, results are
rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .call import NUMPY_NAMES, Call, Declined, Rows, Shape
from .conversion import convert

HALVES = ("float16", "uint16")
_HALF_TYPES = frozenset(map(np.dtype, HALVES))


def is_half(value: Any) -> bool:
    """Whether a dense argument, or one of a list, has a 16-bit floating-point type."""
    if isinstance(value, list):
        return any(is_half(v) for v in value)
    dtype = value.value.dtype if isinstance(value, Rows) else getattr(value, "dtype", None)
    return dtype in _HALF_TYPES


class WideCall(Call):
    """A call with float32 in place of 16-bit floating-point types."""

    def __init__(self, call: Call) -> None:
        ins = {slot: _wide(call, value) for slot, value in call.ins.items()}
        old = {slot: _wide(call, value) for slot, value in call._old.items()}
        names = {"float16": "float32", "bfloat16": "float32"}
        rule = {slot: (shape, names.get(dtype, dtype)) for slot, (shape, dtype) in call._rule.items()}
        super().__init__(call.machine, call.op, ins, call.attrs, call.wanted, old, rule, call.lods, call.device)
        self.lods_out, self.launched, self.allocated = call.lods_out, call.launched, call.allocated
        self.__dict__.update({k: v for k, v in vars(call).items() if k not in vars(self)})
        self.narrow = call

    def unrecorded(self) -> None:
        super().unrecorded()
        self.narrow.unrecorded()

    def narrowed(self, made: dict) -> dict:
        """The results of the wide call in the types of the given one; updates in place are written back."""
        call, result = self.narrow, {}
        first = next((v.dtype.name for v in _flat(call.ins) if is_half(v)), None)
        for slot, value in made.items():
            if slot in call._old and value is self._old[slot]:
                kept = call._old[slot]
                call.unrecorded()
                if is_half(kept):
                    kept[...] = convert(call, value, kept.dtype.name)
                result[slot] = kept
                continue
            result[slot] = _narrow(call, value, self._target(slot, first))
        return result

    def _target(self, slot: str, first: str | None) -> str | None:
        """The 16-bit type of an output, None if it has another type."""
        rule = self.narrow._rule.get(slot)
        if rule is not None:
            name = NUMPY_NAMES.get(rule[1], rule[1])
            return name if name in HALVES else None
        variable = self.narrow.ins.get(slot.removesuffix("@GRAD")) if slot.endswith("@GRAD") else None
        for v in _flat({"": variable}):
            return v.dtype.name if is_half(v) else None
        return first


def _flat(ins: dict) -> list:
    found = []
    for value in ins.values():
        for v in value if isinstance(value, list) else [value]:
            v = v.value if isinstance(v, Rows) else v
            if v is not None:
                found.append(v)
    return found


def _wide(call: Call, value: Any) -> Any:
    if isinstance(value, list):
        return [_wide(call, v) for v in value]
    if not is_half(value):
        return value
    if isinstance(value, Rows):
        return Rows(value.rows, value.height, _wide(call, value.value))
    if isinstance(value, Shape):
        return Shape(value.shape, np.dtype("float32"))
    return convert(call, value, "float32")


def _narrow(call: Call, value: Any, target: str | None) -> Any:
    if isinstance(value, list):
        return [_narrow(call, v, target) for v in value]
    if isinstance(value, Rows):
        return Rows(value.rows, value.height, _narrow(call, value.value, target))
    if target is None or value is None or value.dtype.name != "float32":
        return value
    return convert(call, value, target)


def through_float32(launch: Callable[[Call], dict], native: bool) -> Callable[[Call], dict]:
    """A launcher for all floating-point types from one for float32 and float64; `native`: it has kernels for 16-bit
    types, which are preferred."""

    def run(call: Call) -> dict:
        if not any(is_half(v) for v in call.ins.values()):
            return launch(call)
        if native:
            try:
                return launch(call)
            except Declined:
                pass
        wide = WideCall(call)
        made = launch(wide)
        if wide.launched is None:
            call.launched = None
        return wide.narrowed(made)

    return run


def wide_only(launch: Callable[[Call], dict]) -> Callable[[Call], dict]:
    """A launcher that declines 16-bit types: one for float32 and float64, of a family that has kernels for others."""

    def run(call: Call) -> dict:
        if any(is_half(v) for v in call.ins.values()):
            raise Declined
        return launch(call)

    return run
