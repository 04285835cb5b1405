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

from ..units import REALS, Unit, instances

#: elements and threads of a block
PIECE, _THREADS = 16384, 256

SOURCE = r"""
// `table` has the addresses of slot s and tensor t at s * count + t; block b takes `piece` elements of the tensor
// pieces[2 * b] from element pieces[2 * b + 1] on.
template <typename T> struct Piece {
    const i64* table;
    i64 tensor, count, from, end;
    __device__ Piece(const i64* table, const i64* sizes, const i64* pieces, i64 count, i64 piece)
        : table(table), count(count) {
        tensor = pieces[2 * (i64)blockIdx.x], from = pieces[2 * (i64)blockIdx.x + 1];
        end = from + piece < sizes[tensor] ? from + piece : sizes[tensor];
    }
    __device__ T* at(int slot) const { return (T*)table[slot * count + tensor]; }
};

// `step` of each element of S tensors, the first of which is read only: the others get the values that it changes.
template <int S, typename T, typename F>
__device__ __forceinline__ void update(const Piece<T>& own, T* const (&tensors)[S], F step) {
    const int N = packed<T>::N;
    i64 packs = (own.end - own.from) / N;
#pragma unroll
    for (int s = 0; s < S; s++)
        if (!aligned(tensors[s] + own.from)) packs = 0;
#pragma unroll 2
    for (i64 j = own.from + threadIdx.x * N; j < own.from + packs * N; j += blockDim.x * N) {
        Pack<T, N> all[S];
#pragma unroll
        for (int s = 0; s < S; s++) all[s] = read_pack<N>(tensors[s] + j);
#pragma unroll
        for (int k = 0; k < N; k++) {
            T one[S];
#pragma unroll
            for (int s = 0; s < S; s++) one[s] = all[s].v[k];
            step(one);
#pragma unroll
            for (int s = 1; s < S; s++) all[s].v[k] = one[s];
        }
#pragma unroll
        for (int s = 1; s < S; s++) write_pack<N>(tensors[s] + j, all[s]);
    }
    for (i64 i = own.from + packs * N + threadIdx.x; i < own.end; i += blockDim.x) {
        T one[S];
#pragma unroll
        for (int s = 0; s < S; s++) one[s] = tensors[s][i];
        step(one);
#pragma unroll
        for (int s = 1; s < S; s++) tensors[s][i] = one[s];
    }
}

// Slots: parameter, gradient, learning rate.
template <typename T> __global__ void sgd_all(const i64* table, const i64* sizes, const i64* pieces, i64 count,
                                              i64 piece) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T step = -own.at(2)[0];
    T* const tensors[2] = {own.at(1), own.at(0)};
    update(own, tensors, [=](T* e) { e[1] = fma(step, e[0], e[1]); });
}

// Slots: parameter, gradient, learning rate, velocity.
template <typename T> __global__ void momentum_all(const i64* table, const i64* sizes, const i64* pieces, i64 count,
                                                   i64 piece, T mu, T rescale, T decay, int nesterov) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T rate = own.at(2)[0];
    T* const tensors[3] = {own.at(1), own.at(0), own.at(3)};
    update(own, tensors, [=](T* e) {
        T g = e[0] * rescale + decay * e[1], v = mu * e[2] + g;
        e[2] = v;
        e[1] = e[1] - rate * (nesterov ? g + mu * v : v);
    });
}

// Slots: parameter, gradient, learning rate, first and second moment, powers of beta1 and beta2. A parameter is
// multiplied by its factor (AdamW's decay) first.
template <typename T> __global__ void adam_all(const i64* table, const i64* sizes, const i64* pieces, const T* factors,
                                               i64 count, i64 piece, T beta1, T beta2, T epsilon) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T left = sqrt(T(1) - own.at(6)[0]), factor = factors[own.tensor];
    T step = own.at(2)[0] * (left / (T(1) - own.at(5)[0])), small = epsilon * left;
    T* const tensors[4] = {own.at(1), own.at(0), own.at(3), own.at(4)};
    update(own, tensors, [=](T* e) {
        T g = e[0], m = fma(beta1, e[2], (T(1) - beta1) * g), v = fma(beta2, e[3], (T(1) - beta2) * g * g);
        e[2] = m;
        e[3] = v;
        e[1] = factor * e[1] - step * (m / (sqrt(v) + small));
    });
}
// The powers, after all blocks have read them.
template <typename T> __global__ void adam_all_powers(const i64* table, i64 count, T beta1, T beta2) {
    for (i64 t = blockIdx.x * (i64)blockDim.x + threadIdx.x; t < count; t += (i64)gridDim.x * blockDim.x) {
        ((T*)table[5 * count + t])[0] *= beta1;
        ((T*)table[6 * count + t])[0] *= beta2;
    }
}

// The sum of the squares of a block's elements.
template <typename T> __global__ void squares_all(const i64* table, const i64* sizes, const i64* pieces, i64 count,
                                                  i64 piece, T* sums) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *x = own.at(0), sum = T(0);
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) sum += x[i] * x[i];
    sum = block_join<Sum>(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
// out (all tensors in a row, tensor t from starts[t] on; its address follows the tensors' in the table) =
// x * most / max(most, norm); every block adds up the sums.
template <typename T> __global__ void clip_all(const i64* table, const i64* sizes, const i64* pieces, const i64* starts,
                                               i64 count, i64 piece, const T* sums, i64 blocks, T most) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *x = own.at(0), *to = (T*)table[count] + starts[own.tensor], sum = T(0);
    for (i64 b = threadIdx.x; b < blocks; b += blockDim.x) sum += sums[b];
    T norm = sqrt(block_join<Sum>(sum));
    T factor = most / (norm > most ? norm : most);
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) to[i] = x[i] * factor;
}
"""
_KERNELS = ("sgd_all", "momentum_all", "adam_all", "adam_all_powers", "squares_all", "clip_all")
UNIT = Unit("optimizer_all", SOURCE, sum((instances(kernel, REALS) for kernel in _KERNELS), ()))


@functools.lru_cache(maxsize=64)
def _pieces(sizes: tuple[int, ...]) -> np.ndarray:
    """(tensor, first element) of each block."""
    counts = [-(-n // PIECE) for n in sizes]
    tensor = np.repeat(np.arange(len(sizes)), counts)
    first = np.arange(tensor.size) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    return np.stack([tensor, first * PIECE], 1).astype(np.int64)


#: stands for the table among the arguments of a launch
TABLE = object()
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

    def over(self, kernel: str, *args: Any, after: tuple = (), unit: Unit = UNIT) -> tuple:
        """A launch over all pieces; `args` follow the pieces, `after` the counts."""
        counts = np.int64(self.count), np.int64(PIECE)
        return self.launch(kernel, self.blocks, TABLE, self.sizes, self.pieces, *args, *counts, *after, unit=unit)

    def launch(self, kernel: str, grid: int, *args: Any, unit: Unit = UNIT) -> tuple:
        return unit, f"{kernel}<{self.t}>", grid, args

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
        for unit, kernel, grid, args in made:
            given = tuple(table if a is TABLE else a for a in args)
            self.machine.kernel(unit, kernel)((grid,), (_THREADS,), given)

    def updates(self, op: str, numbers: tuple, by: tuple) -> list[tuple]:
        """The launches of a step of sgd, momentum or adam by the numbers of its kernel and, of adam, the factors."""
        made = [self.over(f"{op}_all", *by, after=numbers)]
        if op == "adam":
            betas = np.int64(self.count), *numbers[:2]
            made.append(self.launch("adam_all_powers", -(-self.count // _THREADS), TABLE, *betas))
        return made

    def started(self, launches: list[tuple], table: Any) -> list[tuple]:
        """Function, blocks, threads and bits of the arguments of each launch; `table` stands for the table."""
        return [
            (self.machine.pointer(unit, kernel), grid, _THREADS, [self._bits(a, table) for a in args])
            for unit, kernel, grid, args in launches
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
        numbers = {name: own.of(attrs[name]) for name in _NUMBERS[op]}
        more: tuple = tuple(numbers.values())
        if op == "momentum":
            decays = attrs["regularization_method"] == "l2_decay"
            decay = own.of(attrs["regularization_coeff"] if decays else 0.0)
            more = (*more, decay, np.int32(attrs["use_nesterov"]))
        by = (own.factors(factors),) if op == "adam" else ()
        own.run((op, more), functools.partial(own.updates, op, more, by), addresses)


_NUMBERS = {"sgd": (), "momentum": ("mu", "rescale_grad"), "adam": ("beta1", "beta2", "epsilon")}


def clip(machine: Any, table: tuple, most: float, out: int) -> None:
    """Writes the tensors of a table, scaled to a joint norm of at most `most`, one after the other to the address
    `out`."""
    device, dtype, addresses, sizes = table
    with machine.on(device):
        own = launcher(machine, device, dtype, sizes)

        def launches() -> list[tuple]:
            sums = machine.xp.empty(own.blocks, dtype)
            after = sums, np.int64(own.blocks), own.of(most)
            return [own.over("squares_all", after=(sums,)), own.over("clip_all", own.starts, after=after)]

        own.run(("clip", most), launches, [*addresses, out])


#: kernels of optimizer.py: the number of their operands, of which those named are written
_OPERANDS = {"sgd": (3, (0,)), "momentum": (4, (0, 3)), "adam": (7, (0, 3, 4, 5, 6))}


def together(machine: Any, device: int, kernels: dict[int, str], steps: list[tuple[int, list[int]]]) -> tuple:
    """Launches of a graph with updates of several parameters, one after the other, as one launch over all of them.

    `kernels` are instances of optimizer.py's kernels by their function; steps are (function, bits of the arguments).
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
    op = first.split("<")[0]
    if op not in _OPERANDS:
        return at + 1, []
    operands, writes = _OPERANDS[op]
    powers, numbers = first.replace("adam<", "adam_powers<"), steps[at][1][operands:-1]
    alike: list[list[int]] = []
    written: set[int] = set()
    read: set[int] = set()
    while at < len(steps) and kernels.get(steps[at][0]) == first:
        args = steps[at][1]
        own = {args[i] for i in writes}
        others = set(args[:operands]) - own
        if args[operands:-1] != numbers or own & (written | read) or others & written:
            break
        follows = op != "adam" or _is_powers(kernels, steps, at + 1, powers, [*args[5:7], *numbers[:2]])
        if not follows:
            break
        written |= own
        read |= others
        alike.append(args)
        at += 2 if op == "adam" else 1
    return (at, alike) if alike else (at + 1, [])


def _is_powers(kernels: dict[int, str], steps: list, at: int, name: str, args: list[int]) -> bool:
    return at < len(steps) and kernels.get(steps[at][0]) == name and steps[at][1] == args


def _over(machine: Any, kernel: str, alike: list[list[int]]) -> tuple[list[tuple], list]:
    """The launches over the tensors of several updates."""
    op, t = kernel.rstrip(">").split("<")
    operands, _ = _OPERANDS[op]
    dtype = next(name for name, c in REALS.items() if c == t)
    own = Launcher(machine, dtype, [args[-1] for args in alike])
    table = own._uploaded(np.asarray([args[i] for i in range(operands) for args in alike], np.int64))
    by = (own.factors(None),) if op == "adam" else ()
    launches = own.updates(op, tuple(np.uint64(bits) for bits in alike[0][operands:-1]), by)
    return own.started(launches, machine.address(table)), [own, table]
