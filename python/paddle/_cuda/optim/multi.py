"""Steps of an optimizer over all parameters by one launch, and clipping by the global norm in two: kernels read the
addresses of the tensors from a table, and a block takes a piece of one tensor. What does not change from step to step
stays on the device; the table is written where an address changed (rust/py/src/device/table.rs)."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import paddle._core as core

from ..units import REALS
from .kernels import RULES, UNIT, numbers

#: elements and threads of a block
PIECE, _THREADS = 16384, 256


@functools.lru_cache(maxsize=64)
def _pieces(sizes: tuple[int, ...]) -> np.ndarray:
    """(tensor, first element) of each block."""
    counts = [-(-n // PIECE) for n in sizes]
    tensor = np.repeat(np.arange(len(sizes)), counts)
    first = np.arange(tensor.size) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    return np.stack([tensor, first * PIECE], 1).astype(np.int64)


#: stands for the table among the arguments of a launch
TABLE = object()
_NULL = np.uint64(0)
#: the sets of sizes of a machine whose launchers are kept
_KEPT = 64
_launchers: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def launcher(machine: Any, device: int, dtype: str, sizes: list[int]) -> Launcher:
    """The launcher over tensors of these sizes."""
    kept = _launchers.setdefault(machine, {})
    key = (device, dtype, tuple(sizes))
    if key not in kept:
        if len(kept) >= _KEPT:
            kept.clear()
        kept[key] = Launcher(machine, dtype, sizes)
    return kept[key]


class Launcher:
    """Launches over tensors of given sizes on the current device: the device copies of the sizes and pieces, and the
    launches by what they compute."""

    def __init__(self, machine: Any, dtype: str, sizes: list[int]) -> None:
        self.machine, self.dtype, self.t, self.of = machine, dtype, REALS[dtype], np.dtype(dtype).type
        pieces = _pieces(tuple(sizes))
        self.count, self.blocks = len(sizes), len(pieces)
        starts = np.cumsum([0, *sizes[:-1]])
        self.sizes, self.pieces, self.starts = (
            self._uploaded(np.asarray(p, np.int64).reshape(-1)) for p in (sizes, pieces, starts)
        )
        self._factors: tuple[list[float], Any] | None = None
        self._kept: dict[Any, tuple[list, Any]] = {}
        self._driver = machine.driver()

    def _uploaded(self, host: np.ndarray, to: Any = None) -> Any:
        array = self.machine.xp.empty(host.shape, host.dtype) if to is None else to
        self.machine.upload_arguments(array.view(np.uint8), host)
        return array

    def factors(self, values: list[float] | None) -> Any:
        """A number for each tensor (None: 1) on the device, in the same memory at every call."""
        wanted = [1.0] * self.count if values is None else list(values)
        if self._factors is None or self._factors[0] != wanted:
            array = None if self._factors is None else self._factors[1]
            self._factors = wanted, self._uploaded(np.asarray(wanted, self.dtype), array)
        return self._factors[1]

    def over(self, kernel: str, *args: Any, after: tuple = ()) -> tuple:
        """A launch over all pieces; `args` follow the pieces, `after` the counts."""
        counts = np.int64(self.count), np.int64(PIECE)
        return kernel, self.blocks, (TABLE, self.sizes, self.pieces, *args, *counts, *after)

    def packed(self, sums: Any = None, most: float = 0.0) -> list[tuple]:
        """The launch that packs the tensors, clipped by the sums of squares if these are given."""
        clip = "false" if sums is None else "true"
        by = (_NULL if sums is None else sums), np.int64(self.blocks), self.of(most)
        return [self.over(f"pack_all<{self.t}, {clip}>", self.starts, after=by)]

    def run(self, key: Any, launches: Callable[[], list[tuple]], addresses: list[int]) -> None:
        """Starts the launches, which depend on nothing but `key`, over the tensors at these addresses."""
        if key not in self._kept:
            made = launches()
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = made, None if self._driver is None else self._steps(made)
        made, steps = self._kept[key]
        if steps is not None:
            steps.run(addresses)
            return
        table = self._uploaded(np.asarray(addresses, np.int64))
        for kernel, grid, args in made:
            given = tuple(table if a is TABLE else a for a in args)
            self.machine.kernel(UNIT, kernel)((grid,), (_THREADS,), given)

    def updates(self, op: str, by: tuple, factors: Any) -> list[tuple]:
        """The launches of a step of sgd, momentum or adam by the numbers of its rule and, of adam, the factors."""
        made = [self.over(f"update_all<{self.t}, {RULES[op]}>", factors, after=by)]
        if op == "adam":
            args = TABLE, _NULL, _NULL, np.int64(self.count), *by[:2]
            made.append((f"powers<{self.t}>", -(-self.count // _THREADS), args))
        return made

    def started(self, launches: list[tuple], table: Any) -> list[tuple]:
        """Function, blocks, threads and bits of the arguments of each launch; `table` stands for the table."""
        return [
            (self.machine.pointer(UNIT, kernel), grid, _THREADS, [self._bits(a, table) for a in args])
            for kernel, grid, args in launches
        ]

    def _bits(self, value: Any, table: Any) -> Any:
        if value is TABLE:
            return table
        if isinstance(value, np.generic):
            return int.from_bytes(value.tobytes().ljust(8, b"\0"), "little")
        return self.machine.address(value)

    def _steps(self, launches: list[tuple]) -> Any:
        return core.TableSteps(self._driver, self.started(launches, None))


def step(machine: Any, op: str, table: tuple, attrs: dict, factors: list[float] | None) -> None:
    """One step of sgd, momentum or adam over the tensors of a table (`paddle._core.device_table`)."""
    device, dtype, addresses, sizes = table
    with machine.on(device):
        own = launcher(machine, device, dtype, sizes)
        by = numbers(op, attrs, own.of)
        of_adam = own.factors(factors) if op == "adam" else _NULL
        own.run((op, by), functools.partial(own.updates, op, by, of_adam), addresses)


def clip(machine: Any, table: tuple, most: float, out: int) -> None:
    """Writes the tensors of a table, scaled to a joint norm of at most `most`, one after the other to the address
    `out`."""
    device, dtype, addresses, sizes = table
    with machine.on(device):
        own = launcher(machine, device, dtype, sizes)

        def launches() -> list[tuple]:
            sums = machine.xp.empty(own.blocks, dtype)
            return [own.over(f"squares_all<{own.t}>", after=(sums,)), *own.packed(sums, most)]

        own.run(("clip", most), launches, [*addresses, out])


#: the operands of kernels that update one parameter, and those that rules write
_OPERANDS = 7
_WRITTEN = {"Sgd": (0,), "Momentum": (0, 3), "Adam": (0, 3, 4, 5, 6)}


def _rule_of(kernel: str) -> str:
    """The rule of a kernel that updates one parameter, "" for others."""
    return kernel[:-1].split(", ")[1] if kernel.startswith("update<") else ""


def together(machine: Any, device: int, kernels: dict[int, str], steps: list[tuple[int, list[int]]]) -> tuple:
    """Launches of a graph with updates of several parameters, one after the other, as one launch over all of them.

    `kernels` are instances of kernels of updates by their function; steps are (function, bits of the arguments).
    Returns the steps to start (the number of a given one, or function, blocks, threads and arguments), and what holds
    the memory that they read.
    """
    found: list = []
    held: list = []
    at = 0
    with machine.on(device):
        while at < len(steps):
            end, alike = _alike(kernels, steps, at)
            if len(alike) > 1:
                launches, keep = _over(machine, kernels[steps[at][0]], alike)
                found += launches
                held += keep
            else:
                found += range(at, end)
            at = end
    return found, held


def _alike(kernels: dict[int, str], steps: list, at: int) -> tuple[int, list[list[int]]]:
    """The end of the steps from `at` on that one launch may replace, and the arguments of the updates among them."""
    first = kernels.get(steps[at][0], "")
    rule = _rule_of(first)
    if not rule:
        return at + 1, []
    numbers = steps[at][1][_OPERANDS:-1]
    alike: list[list[int]] = []
    written: set[int] = set()
    read: set[int] = set()
    while at < len(steps) and kernels.get(steps[at][0]) == first:
        args = steps[at][1]
        own = {args[i] for i in _WRITTEN[rule]}
        others = set(args[:_OPERANDS]) - own
        if args[_OPERANDS:-1] != numbers or own & (written | read) or others & written:
            break
        follows = rule != "Adam" or _is_powers(kernels, steps, at + 1, [0, *args[5:7], 1, *numbers[:2]])
        if not follows:
            break
        written |= own
        read |= others
        alike.append(args)
        at += 2 if rule == "Adam" else 1
    return (at, alike) if alike else (at + 1, [])


def _is_powers(kernels: dict[int, str], steps: list, at: int, args: list[int]) -> bool:
    return at < len(steps) and kernels.get(steps[at][0], "").startswith("powers<") and steps[at][1] == args


def _over(machine: Any, kernel: str, alike: list[list[int]]) -> tuple[list[tuple], list]:
    """The launches over the tensors of several updates."""
    t = kernel[len("update<") :].split(",")[0]
    op = next(op for op, rule in RULES.items() if rule == _rule_of(kernel))
    dtype = next(name for name, c in REALS.items() if c == t)
    own = Launcher(machine, dtype, [args[-1] for args in alike])
    table = own._uploaded(np.asarray([args[i] for i in range(_OPERANDS) for args in alike], np.int64))
    factors = own.factors(None) if op == "adam" else _NULL
    launches = own.updates(op, tuple(np.uint64(bits) for bits in alike[0][_OPERANDS:-1]), factors)
    return own.started(launches, machine.address(table)), [own, table]
