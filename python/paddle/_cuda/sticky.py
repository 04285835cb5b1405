"""Errors found by kernels: a word in page-locked host memory that keeps the first error until the next read of device
memory, which raises it. Kernels do not wait for it, and the host looks at it without a transfer."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .call import Call
from .units import INTEGERS, Unit, grid_of, instances

SOURCE = r"""
// Writes the number `code` of a check and the offending id to the word.
template <typename I> __global__ void check_ids(const I* ids, i64 n, i64 low, i64 high, i64 also, i64 code, i64* word) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 id = (i64)ids[i];
        if ((id < low || id >= high) && id != also && word[0] == 0) {
            word[1] = id;
            word[0] = code;
        }
    }
}
"""
UNIT = Unit("check_ids", SOURCE, instances("check_ids", INTEGERS))


class Words:
    """The words of a machine, one for each device, and the checks that have been launched: code - 1 is an index of
    `checks`."""

    def __init__(self) -> None:
        self.arrays: dict[int, np.ndarray] = {}
        self.checks: list[tuple[str, int, int]] = []
        self.codes: dict[tuple[str, int, int], int] = {}

    def code(self, op: str, low: int, high: int) -> int:
        key = (op, low, high)
        if key not in self.codes:
            self.checks.append(key)
            self.codes[key] = len(self.checks)
        return self.codes[key]


_words: weakref.WeakKeyDictionary[Any, Words] = weakref.WeakKeyDictionary()


def word(call: Call, low: int, high: int) -> tuple[np.uint64, np.int64]:
    """The address of the word of the current device, and the code of a check of ids for low <= id < high."""
    words = _words.setdefault(call.real_machine, Words())
    if call.device not in words.arrays:
        words.arrays[call.device] = call.machine.host_words(2)
    return np.uint64(words.arrays[call.device].ctypes.data), np.int64(words.code(call.op, low, high))


def check_ids(call: Call, ids, low: int, high: int, also: int | None = None) -> None:
    """Sets the word if an element of `ids` is neither of [low, high) nor `also`."""
    if ids.size == 0:
        return
    array, code = word(call, low, high)
    ids = ids if ids.flags.c_contiguous else call.xp.ascontiguousarray(ids)
    kernel = f"check_ids<{INTEGERS[ids.dtype.name]}>"
    also = low if also is None and low < high else also if also is not None else high
    bounds = map(np.int64, (ids.size, low, high, also))
    call.launch(UNIT, kernel, grid_of(ids.size), 256, ids, *bounds, code, array)


def raise_if_set(machine, device: int | None = None) -> None:
    """IndexError if a kernel on the device (None: on any) that has ended found an id out of range; clears the word."""
    words = _words.get(machine)
    if words is None:
        return
    for array in words.arrays.values() if device is None else [words.arrays.get(device)]:
        if array is not None and array[0]:
            code, found = array.tolist()
            array[...] = 0
            op, low, high = words.checks[code - 1]
            raise IndexError(
                f"(OutOfRange) operator {op}: an id is out of range: expected {low} <= id < {high}, got {found}"
            )
