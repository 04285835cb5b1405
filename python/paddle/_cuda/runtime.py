"""Runtime: the interface that the engine calls; memory is a handle (a flat byte array), tensors a handle and offset."""

from __future__ import annotations

import warnings

import numpy as np

from . import sticky
from .call import NUMPY_NAMES, Call, Declined, Rows, Shape

# numpy has no bfloat16; its bits are stored as uint16, which launchers decline.
_PADDLE = {"uint16": "bfloat16"}


class Runtime:
    """The backend of a machine; `paddle._core.register_backend` takes one."""

    def __init__(self, machine, launchers: dict) -> None:
        self.machine, self._launchers = machine, launchers
        self.launchers = set(launchers)  # read by rust/py/src/device/cuda.rs

    def alloc(self, device: int, nbytes: int):
        """A handle of new memory and its address."""
        with self.machine.on(device):
            array = self.machine.xp.empty(nbytes, np.uint8)
        return array, self.machine.address(array)

    def write(self, handle, host: np.ndarray) -> None:
        """Copy all bytes of `host` to the memory."""
        if host.size:
            self.machine.upload(handle, host)

    def read(self, handle) -> np.ndarray:
        """The bytes of the memory on the host; raises an error that a kernel has found since the last call."""
        sticky.raise_if_set(self.machine)
        return self.machine.download(handle)

    def lacks(self, op: str) -> None:
        """Warn that `op` runs on the CPU."""
        warnings.warn(
            f"operator {op} has no CUDA kernel for these operands: it runs on the CPU, with its operands copied there "
            "and back",
            RuntimeWarning,
            stacklevel=2,
        )

    def run(self, segment: list) -> list:
        """Results of the calls, each a list over the output slots; None for the first call that is declined."""
        results: list = []
        for op, device, ins, attrs, wanted, writable, rule in segment:
            with self.machine.on(device):
                result = self._run(op, ins, attrs, wanted, writable, rule)
            results.append(result)
            if result is None:
                break
        return results

    def _run(self, op: str, ins: dict, attrs: dict, wanted: dict, writable: dict, rule: dict):
        arrays = {slot: self._argument(value) for slot, value in ins.items()}
        old = {}
        for slot, (source, may_write) in writable.items():
            value = arrays[source]
            old[slot] = value if may_write else value.copy()
        try:
            made = self._launchers[op](Call(self.machine, op, arrays, attrs, wanted, old, rule))
        except Declined:
            return None
        kept = self._kept(ins, {source for source, may_write in writable.values() if may_write})
        return [self._result(made.get(slot), kept) for slot in wanted]

    def _kept(self, ins: dict, written: set[str]) -> list[tuple[int, int]]:
        """Address ranges of inputs that are not written: an output within one of them is copied."""
        found = []
        for slot, value in ins.items():
            for v in value if isinstance(value, list) else [value]:
                handle = None if v is None else v[2][0] if len(v) == 3 else v[0]
                if handle is not None and slot not in written:
                    start = self.machine.address(handle)
                    found.append((start, start + handle.size))
        return found

    def _argument(self, value):
        if value is None:
            return None
        if isinstance(value, list):
            return [self._argument(v) for v in value]
        if len(value) == 3:
            rows, height, of = value
            return Rows(rows, height, self._argument(of))
        handle, offset, dtype, shape = value
        dtype = np.dtype(NUMPY_NAMES.get(dtype, dtype))
        if handle is None:
            return Shape(tuple(shape), dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return handle[offset : offset + nbytes].view(dtype).reshape(shape)

    def _result(self, value, kept):
        if value is None:
            return None
        if isinstance(value, list):
            return [self._result(v, kept) for v in value]
        if isinstance(value, Rows):
            return value.rows, value.height, self._result(value.value, kept)
        array = self.machine.xp.ascontiguousarray(value)
        name = array.dtype.name
        flat = array.reshape(-1).view(np.uint8)
        address = self.machine.address(flat)
        if any(start <= address < end for start, end in kept):
            flat = flat.copy()
            address = self.machine.address(flat)
        return flat, address, flat.size, _PADDLE.get(name, name), list(value.shape)
