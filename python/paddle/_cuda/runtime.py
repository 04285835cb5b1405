"""Runtime: the interface that the engine calls; memory is a handle (a contiguous array), a tensor a handle and an
offset."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any

import numpy as np

from . import recipe, sticky, strided
from .call import DTYPES, NAMES, Call, Declined, Each, Rows, Shape
from .optim import multi, optimizer

#: recipes of an operator: of operands without and with a LoD
_MOST_KEYS, _MOST_LODS = 512, 64


class Runtime:
    """The backend of a machine; `paddle._core.register_backend` takes one."""

    def __init__(self, machine, launchers: dict, recorded: frozenset[str] = frozenset()) -> None:
        self.machine, self._launchers = machine, launchers
        # Read by rust/py/src/device/cuda.rs.
        self.launchers, self.recorded = set(launchers), set(recorded)
        self.graphs = int(getattr(machine, "graphs", 0))
        self._view, self._root = machine.view, machine.root
        #: kernels of optimizers that recipes start, by function
        self._updates: dict[int, str] = {}
        #: keys that were recorded, by operator and whether they have a LoD
        self._keys: Counter = Counter()

    def alloc(self, device: int, nbytes: int):
        """A handle of new memory and its address."""
        with self.machine.on(device):
            array = self.machine.xp.empty(nbytes, np.uint8)
        return array, self.machine.address(array)

    def driver(self, device: int) -> tuple[str, int, int] | None:
        """The path of libcuda, and the context and stream of a device; None if launches go through Python."""
        with self.machine.on(device):
            return self.machine.driver()

    def adopt(self, address: int, nbytes: int, device: int, owner: Any):
        """A handle of memory of the driver's pool, which `owner` keeps."""
        with self.machine.on(device):
            return self.machine.adopt(address, nbytes, owner)

    def record(self, described: tuple) -> tuple[list | None, tuple | None]:
        """The results of a call (None if it is declined), and its recipe (None if it has none)."""
        op, device, ins, attrs, wanted, writable, rule, lods = described
        key = op, bool(lods)
        self._keys[key] += 1
        # Shapes that change at each call are not worth a recording, which takes longer than the launcher alone.
        recorded: list | None = [] if self._keys[key] <= (_MOST_LODS if lods else _MOST_KEYS) else None
        with self.machine.on(device):
            results = self._run(op, device, ins, attrs, wanted, writable, rule, lods, recorded)
        return results, recorded[0] if recorded else None

    def together(self, device: int, steps: list) -> tuple | None:
        """Kept launches with updates of adjacent parameters as one launch (multi.py); None if there are none."""
        if not any(function in self._updates for function, _ in steps):
            return None
        return multi.together(self.machine, device, self._updates, steps)

    def write(self, handle, host: np.ndarray) -> None:
        """Copy all bytes of `host` to the memory."""
        if host.size:
            self.machine.upload(handle, host)

    def read(self, handle) -> np.ndarray:
        """The bytes of the memory on the host; raises an error that a kernel has found since the last call."""
        found = self.machine.download(handle.reshape(-1).view(np.uint8))
        sticky.raise_if_set(self.machine)
        return found

    def wait(self, device: int) -> None:
        """Wait for all operations on the device; raises an error that a kernel has found since the last call."""
        with self.machine.on(device):
            self.machine.wait()
        sticky.raise_if_set(self.machine, device)

    def lacks(self, op: str) -> None:
        """Warn that `op` runs on the CPU."""
        warnings.warn(
            f"operator {op} has no CUDA kernel for these operands: it runs on the CPU, with its operands copied there "
            "and back",
            RuntimeWarning,
            stacklevel=2,
        )

    def lacks_graph(self, why: str) -> None:
        """Warn that a plan runs without a graph."""
        warnings.warn(f"a Program is not captured as a CUDA graph: {why}", RuntimeWarning, stacklevel=2)

    def run(self, segment: list) -> list:
        """Results of the calls, each a list over the output slots; None for the first call that is declined."""
        results: list = []
        while len(results) < len(segment):
            entered = segment[len(results)][1]
            with self.machine.on(entered):
                for op, device, *call in segment[len(results) :]:
                    if device != entered:
                        break
                    results.append(self._run(op, device, *call))
                    if results[-1] is None:
                        return results
        return results

    def _run(
        self,
        op: str,
        device: int,
        ins: dict,
        attrs: dict,
        wanted: dict,
        writable: dict,
        rule: dict,
        lods: dict,
        recorded: list | None = None,
    ):
        roots: list = []
        arrays = {slot: self._argument(value, roots, slot) for slot, value in ins.items()}
        old, written = {}, set()
        for slot, (source, may_write) in writable.items():
            value = arrays[source]
            old[slot] = value if may_write or recorded is not None else value.copy()
            if may_write:
                written.add(source)
        call = Call(self.machine, op, arrays, attrs, wanted, old, rule, lods, device)
        if recorded is not None:
            recipe.record(call)
            call._old.update({slot: strided.copied(call, old[slot]) for slot, (_, may) in writable.items() if not may})
        try:
            made = self._launchers[op](call)
        except Declined:
            return None
        if recorded is not None:
            recorded.append(recipe.recipe(call, made))
            if recorded[0] is not None and op in optimizer.LAUNCHERS:
                self._updates.update(
                    (self.machine.pointer(of, k), k) for of, k, *_ in call.launched or () if of is optimizer.UNIT
                )
        # An output in the memory of an input that is not written is copied.
        kept = [root for slot, root in roots if slot not in written]
        results: list[Any] = [
            _Values(self, value, kept, device)
            if isinstance(value := made.get(slot), Each)
            else self._result(value, kept)
            for slot in wanted
        ]
        if call.lods_out:
            for i, slot in enumerate(wanted):
                if slot in call.lods_out and results[i] is not None:
                    of_slot = call.lods_out[slot]
                    many = isinstance(results[i], list)
                    results[i] = list(zip(results[i], of_slot, strict=True)) if many else (results[i], of_slot)
        return results

    def _argument(self, value, roots: list, slot: str) -> Any:
        if value is None:
            return None
        if isinstance(value, list):
            return [self._argument(v, roots, slot) for v in value]
        if len(value) == 3:
            rows, height, of = value
            return Rows(rows, height, self._argument(of, roots, slot))
        handle, offset, dtype, shape = value
        if handle is None:
            return Shape(tuple(shape), DTYPES[dtype])
        roots.append((slot, self._root(handle)))
        return self._view(handle, offset, DTYPES[dtype], shape)

    def _result(self, value, kept: list) -> Any:
        if value is None:
            return None
        if isinstance(value, list):
            return [self._result(v, kept) for v in value]
        if isinstance(value, Rows):
            return value.rows, value.height, self._result(value.value, kept)
        array = value
        if not array.flags.c_contiguous:
            array = self.machine.xp.ascontiguousarray(array)
        if kept:
            root = self._root(array)
            if any(root is other for other in kept):
                array = array.copy()
        shape = list(array.shape)
        return array, self.machine.address(array), math.prod(shape) * array.itemsize, NAMES[array.dtype], shape


class _Values:
    """The results of an `Each`, by position."""

    def __init__(self, runtime: Runtime, each: Each, kept: list, device: int) -> None:
        self._runtime, self._each, self._kept, self._device = runtime, each, kept, device

    def __getitem__(self, i: int) -> Any:
        with self._runtime.machine.on(self._device):
            return self._runtime._result(self._each.make(i), self._kept)
